// IDX, the format of MNIST and its relatives: big-endian sizes, then bytes.
//
//   00 00 08 D | D sizes of u32 | product(sizes) bytes, C order        08: unsigned bytes, the only type read here
//
// Compressed by gzip or not. The file is read whole; its sizes are multiplied with overflow checks and compared with it
// before memory is taken for the values. ConfigError(key, path) for anything else; IoError where the file cannot be
// read. Local.
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

// `file` is the whole file; it must have `num_dimensions` (images: 3, labels: 1).
IdxArray parse_idx(std::span<const std::byte> file, int num_dimensions, std::string_view key, std::string_view path);

IdxArray read_idx(const std::filesystem::path& path, int num_dimensions, std::string_view key);

}  // namespace zero
