#include "app/data/images/gzip.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <zlib.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

// 15: a window of 2^15 bytes. 16: the gzip format, with its checksum.
constexpr int kGzipWindow = 15 + 16;

struct Inflate {
  z_stream stream{};
  Inflate() { ZERO_CHECK(inflateInit2(&stream, kGzipWindow) == Z_OK, "zlib has no memory"); }
  ~Inflate() { inflateEnd(&stream); }
};

}  // namespace

bool is_gzip(std::span<const std::byte> file) {
  return file.size() >= 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
}

std::vector<std::byte> gunzip(std::span<const std::byte> file, std::size_t limit, std::string_view key,
                              std::string_view path) {
  const auto refuse = [&](std::string_view reason) {
    throw ConfigError(key, path, fmt::format("damaged gzip file: {}", reason), "Fetch the file again.");
  };
  Inflate inflater;
  z_stream& stream = inflater.stream;
  std::vector<std::byte> contents;
  std::size_t used = 0, made = 0;
  while (made < limit) {
    if (made == contents.size()) contents.resize(std::min(limit, std::max<std::size_t>(4096, 2 * made)));
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    const auto room = static_cast<uInt>(std::min(kMost, contents.size() - made));
    const auto rest = static_cast<uInt>(std::min(kMost, file.size() - used));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(file.data() + used));
    stream.avail_in = rest;
    stream.next_out = reinterpret_cast<Bytef*>(contents.data() + made);
    stream.avail_out = room;
    const int status = inflate(&stream, Z_NO_FLUSH);
    used += rest - stream.avail_in;
    made += room - stream.avail_out;
    if (status == Z_STREAM_END) {
      if (used == file.size()) break;
      if (!is_gzip(file.subspan(used))) refuse("something else follows its end");
      ZERO_CHECK(inflateReset(&stream) == Z_OK);
    } else if (status == Z_BUF_ERROR) {
      refuse("it is cut short");
    } else if (status != Z_OK) {
      refuse(stream.msg != nullptr ? stream.msg : "unreadable");
    }
  }
  contents.resize(made);
  return contents;
}

}  // namespace zero
