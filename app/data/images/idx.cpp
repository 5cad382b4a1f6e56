#include "app/data/images/idx.h"

#include <cstring>
#include <string>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/input_file.h"

#include "app/data/images/gzip.h"

namespace zero {
namespace {

constexpr std::string_view kRemedy =
    "Fetch the file again; expected is an IDX file such as train-images-idx3-ubyte(.gz).";

std::int64_t big_endian(std::span<const std::byte> four) {
  std::int64_t value = 0;
  for (const std::byte byte : four.first(4)) value = value << 8 | std::to_integer<std::int64_t>(byte);
  return value;
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> file, int num_dimensions, std::string_view key, std::string_view path) {
  const auto refuse = [&](const std::string& reason) { throw ConfigError(key, path, reason, kRemedy); };
  if (file.empty()) refuse("the file is empty");
  const std::size_t header_bytes = 4 + 4 * static_cast<std::size_t>(num_dimensions);
  const bool compressed = is_gzip(file);
  std::vector<std::byte> contents;
  if (compressed) contents = gunzip(file, header_bytes, key, path);
  std::span<const std::byte> bytes = compressed ? std::span<const std::byte>(contents) : file;

  if (bytes.size() < header_bytes)
    refuse(fmt::format("is cut short: {} bytes, the header has {}", bytes.size(), header_bytes));
  const std::int64_t magic = big_endian(bytes);
  if (magic != (0x0800 | num_dimensions))
    refuse(fmt::format("begins with {:#010x}; expected {:#010x}, unsigned bytes in {} dimension{}", magic,
                       0x0800 | num_dimensions, num_dimensions, num_dimensions == 1 ? "" : "s"));
  IdxArray array;
  std::int64_t numel = 1;
  for (int i = 0; i < num_dimensions; ++i) {
    array.shape.push_back(big_endian(bytes.subspan(4 + 4 * static_cast<std::size_t>(i))));
    if (__builtin_mul_overflow(numel, array.shape.back(), &numel)) refuse("the sizes in its header overflow");
  }
  // One more byte than the header says is read, to detect a file that is too long.
  std::size_t announced = 0;
  if (__builtin_add_overflow(header_bytes, static_cast<std::size_t>(numel), &announced)) refuse("the sizes overflow");
  if (compressed) bytes = contents = gunzip(file, announced + 1, key, path);
  if (bytes.size() != announced)
    refuse(fmt::format("the header announces {} bytes, but the file has {}{}", announced,
                       compressed && bytes.size() > announced ? "more than " : "",
                       compressed && bytes.size() > announced ? announced : bytes.size()));
  array.values.resize(static_cast<std::size_t>(numel));
  if (numel > 0) std::memcpy(array.values.data(), bytes.data() + header_bytes, array.values.size());
  return array;
}

IdxArray read_idx(const std::filesystem::path& path, int num_dimensions, std::string_view key) {
  require_input_file(key, path);
  const std::string file = InputFile(path).read_all();
  return parse_idx(std::as_bytes(std::span(file)), num_dimensions, key, path.native());
}

}  // namespace zero
