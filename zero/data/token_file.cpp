#include "zero/data/token_file.h"

#include <array>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "zero/base/check.h"
#include "zero/base/error.h"

namespace zero {
namespace {

struct Form {
  std::int32_t magic, version;
};
constexpr Form kNarrow{20240520, 1}, kWide{20240801, 7};
using Header = std::array<std::int32_t, 256>;

}  // namespace

TokenFileWriter::TokenFileWriter(std::filesystem::path path, std::int64_t vocab)
    : path_(std::move(path)),
      unfinished_(path_.string() + ".unfinished"),
      wide_(vocab > 65536),
      file_(FileDescriptor::open(unfinished_, O_RDWR | O_CREAT | O_TRUNC)) {
  const Header header{};
  write(std::as_bytes(std::span(header)));
}

TokenFileWriter::~TokenFileWriter() {
  if (file_.get() >= 0) ::unlink(unfinished_.c_str());
}

void TokenFileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw IoError(unfinished_.string(), "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void TokenFileWriter::append(std::span<const std::int64_t> tokens) {
  if (wide_) {
    const std::vector<std::uint32_t> words(tokens.begin(), tokens.end());
    write(std::as_bytes(std::span(words)));
  } else {
    const std::vector<std::uint16_t> words(tokens.begin(), tokens.end());
    write(std::as_bytes(std::span(words)));
  }
  num_tokens_ += std::ssize(tokens);
}

void TokenFileWriter::finish() {
  if (num_tokens_ > INT32_MAX)
    throw IoError(path_.string(), "write", EFBIG, "the header of llm.c counts at most 2,147,483,647 tokens");
  const Form& form = wide_ ? kWide : kNarrow;
  Header header{};
  header[0] = form.magic;
  header[1] = form.version;
  header[2] = static_cast<std::int32_t>(num_tokens_);
  if (::pwrite(file_.get(), header.data(), sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      ::fsync(file_.get()) != 0)
    throw IoError(unfinished_.string(), "write", errno);
  std::error_code error;
  std::filesystem::rename(unfinished_, path_, error);
  if (error) throw IoError(path_.string(), "rename", error.value());
  file_ = {};
}

}  // namespace zero
