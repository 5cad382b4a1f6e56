// read_idx(): reads IDX, the format of MNIST and similar data: big-endian sizes, then bytes.
//
//   00 00 08 D | D sizes of u32 | product(sizes) bytes, C order        08: unsigned bytes, the only type read here
//
// The file may be compressed by gzip. It is read whole. The product of its sizes is computed with overflow checks, and
// compared with the file's size before memory is allocated for the values.
//
// Local. Throws ConfigError(key, path) for any other file, and IoError if the file cannot be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace zero {

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;
};

// Parses a whole file, which must have `num_dimensions` dimensions (images: 3, labels: 1).
IdxArray parse_idx(std::span<const std::byte> file, int num_dimensions, std::string_view key, std::string_view path);

IdxArray read_idx(const std::filesystem::path& path, int num_dimensions, std::string_view key);

}  // namespace zero
