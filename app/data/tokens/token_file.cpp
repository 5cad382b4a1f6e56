#include "app/data/tokens/token_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

struct Form {
  std::int32_t magic, version;
};
constexpr Form kNarrow{20240520, 1}, kWide{20240801, 7};
using Header = std::array<std::int32_t, 256>;
constexpr std::size_t kShardDigits = 6;  // digits in a shard's name, as in llm.c

std::string_view bytes_of(const Form& form) {
  return {reinterpret_cast<const char*>(&form), sizeof(form)};
}

}  // namespace

void require_token_output(std::string_view key, const std::filesystem::path& path) {
  require_output_file(key, path, "a file of tokens", {bytes_of(kNarrow), bytes_of(kWide)});
}

TokenFileWriter::TokenFileWriter(std::filesystem::path path, std::int64_t vocab)
    : path_(std::move(path)),
      unfinished_(path_.string() + ".unfinished"),
      wide_(vocab > 65536),
      file_(FileDescriptor::open(unfinished_, O_RDWR | O_CREAT | O_TRUNC)) {
  const Header header{};
  write(std::as_bytes(std::span(header)));
}

TokenFileWriter::~TokenFileWriter() {
  if (!is_finished_) ::unlink(unfinished_.c_str());
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

void TokenFileWriter::seal() {
  if (file_.get() < 0) return;
  if (num_tokens_ > INT32_MAX)
    throw IoError(path_.string(), "write", EFBIG,
                  "the header of llm.c counts at most 2,147,483,647 tokens: write shards");
  const Form& form = wide_ ? kWide : kNarrow;
  Header header{};
  header[0] = form.magic;
  header[1] = form.version;
  header[2] = static_cast<std::int32_t>(num_tokens_);
  if (::pwrite(file_.get(), header.data(), sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      ::fsync(file_.get()) != 0)
    throw IoError(unfinished_.string(), "write", errno);
  file_ = {};
}

void TokenFileWriter::finish() {
  seal();
  std::error_code error;
  std::filesystem::rename(unfinished_, path_, error);
  if (error) throw IoError(path_.string(), "rename", error.value());
  is_finished_ = true;
}

void TokenShardWriter::require_free(const std::filesystem::path& path, std::string_view key) {
  const std::string begin = path.stem().string() + "_", end = path.extension().string();
  const auto folder = path.parent_path().empty() ? std::filesystem::path(".") : path.parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.size() != begin.size() + kShardDigits + end.size() || !name.starts_with(begin) || !name.ends_with(end) ||
        !std::ranges::all_of(name.substr(begin.size(), kShardDigits), [](char c) { return c >= '0' && c <= '9'; }))
      continue;
    throw ConfigError(key, path.string(),
                      fmt::format("{} is a shard of that name", (path.parent_path() / name).string()),
                      "remove the old shards, because a pattern would also read them, or choose another name");
  }
}

TokenShardWriter::TokenShardWriter(std::filesystem::path path, std::int64_t vocab, std::int64_t shard_tokens)
    : path_(std::move(path)), vocab_(vocab), shard_tokens_(shard_tokens) {
  ZERO_CHECK(shard_tokens > 0, "shards of {} tokens", shard_tokens);
  shards_.push_back(std::make_unique<TokenFileWriter>(this->path(0), vocab_));
}

std::filesystem::path TokenShardWriter::path(std::int64_t i) const {
  return path_.parent_path() /
         fmt::format("{}_{:0{}}{}", path_.stem().string(), i + 1, kShardDigits, path_.extension().string());
}

void TokenShardWriter::append(std::span<const std::int64_t> tokens) {
  while (!tokens.empty()) {
    if (shards_.back()->size() == shard_tokens_) {
      shards_.back()->seal();
      shards_.push_back(std::make_unique<TokenFileWriter>(path(num_shards()), vocab_));
    }
    const auto room = static_cast<std::size_t>(shard_tokens_ - shards_.back()->size());
    const auto part = tokens.first(std::min(room, tokens.size()));
    shards_.back()->append(part);
    tokens = tokens.subspan(part.size());
  }
}

void TokenShardWriter::finish() {
  for (const auto& shard : shards_) shard->seal();
  for (const auto& shard : shards_) shard->finish();
}

std::int64_t TokenShardWriter::size() const {
  std::int64_t tokens = 0;
  for (const auto& shard : shards_) tokens += shard->size();
  return tokens;
}

}  // namespace zero
