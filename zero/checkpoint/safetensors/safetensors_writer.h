// SafetensorsWriter: writes a safetensors file piece by piece, without holding all of it.
//
//   SafetensorsWriter writer("model.safetensors", {{.name = "w", .dtype = ElementType::kF32, .shape = {2, 3}}});
//   writer.write("w", 0, first_half);          // any tensor, any order, any size of piece
//   writer.write("w", 12, second_half);
//   writer.commit();                           // durable, and under its name from now on
//
// The header is written first, into a temporary file. Begin and end of the given entries are ignored and computed anew.
// Pieces of a tensor must not overlap. commit() with a byte missing throws InternalError. Without commit(), the
// destructor removes the file. Throws ConfigError for names that cannot be stored, IoError from the disk. Local; not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/files/file.h"
#include "zero/checkpoint/safetensors/safetensors_header.h"

namespace zero {

class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries,
                    const SafetensorsMetadata& metadata = {{"format", "pt"}});

  // Reserves the space of the whole file on the disk: see AtomicFile::reserve().
  void reserve() { file_.reserve(size_bytes_); }
  std::int64_t size_bytes() const { return size_bytes_; }
  // `byte_offset` is relative to the tensor.
  void write(std::string_view name, std::int64_t byte_offset, std::span<const std::byte> bytes);
  void commit();

 private:
  struct Progress {
    std::int64_t begin;  // bytes from the start of the file
    std::int64_t size_bytes;
    std::int64_t written_bytes = 0;
  };

  AtomicFile file_;
  std::int64_t size_bytes_ = 0;  // of the file
  std::map<std::string, Progress, std::less<>> tensors_;
};

}  // namespace zero
