// SafetensorsHeader: the header of a safetensors file, read strictly, and written in one form.
//
// The file: u64 little-endian N, N bytes of JSON, then the byte buffer. The JSON is one object of
//   "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}      offsets relative to the byte buffer
// and may hold "__metadata__": {string: string}. A file is accepted only if
//   - N <= 100,000,000, inside the file; the JSON starts with '{', is UTF-8, and only space follows the object;
//   - no key occurs twice, none is unknown, none is missing; every number is an unsigned integer below 2^63;
//   - product(shape) x bits, checked for overflow, fills exactly data_offsets; whole bytes also for 4- and 6-bit types;
//   - sorted by offset the tensors cover the buffer from 0 to the end of the file, without hole or overlap;
//   - (zero.cpp's own rule) at most 1,000,000 tensors of at most 16 dimensions, with names of at most 512 bytes.
// Empty tensors and scalars (shape []) are legal. Memory is bounded by the header's size. A file that breaks a rule is
// a ConfigError(path) that names the tensor. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/checkpoint/safetensors/element_type.h"

namespace zero {

struct SafetensorsEntry {
  std::string name;
  ElementType dtype = ElementType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // bytes, relative to the byte buffer
  std::int64_t end = 0;

  std::int64_t size_bytes() const { return end - begin; }
  std::int64_t numel() const;
  bool operator==(const SafetensorsEntry&) const = default;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // by offset
  SafetensorsMetadata metadata;
  std::int64_t buffer_begin = 0;  // bytes from the start of the file: 8 + N
};

// Returns the bytes of the header at the begin of the file: 8 + N. `file`: at least 8 bytes, unless the whole file (of
// `file_bytes`) is shorter. `path`: its name in errors.
std::size_t safetensors_head_bytes(std::span<const std::byte> file, std::int64_t file_bytes, std::string_view path);

// `file`: the bytes of the header, or more.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, std::int64_t file_bytes,
                                           std::string_view path);

// Sorts by element size, largest first, then by name, so every tensor is aligned to its elements; and sets the offsets.
// Throws ConfigError(path) if a name occurs twice or a size overflows.
void lay_out(std::vector<SafetensorsEntry>& entries, std::string_view path);

// Throws ConfigError(path) if a name occurs twice or cannot be stored.
void require_storable(const std::vector<SafetensorsEntry>& entries, std::string_view path);

// Returns the first 8 + N bytes of a file, padded with spaces to a multiple of 8. `entries` cover the buffer, as after
// lay_out().
std::string render_safetensors_header(const std::vector<SafetensorsEntry>& entries, const SafetensorsMetadata& metadata,
                                      std::string_view path);

}  // namespace zero
