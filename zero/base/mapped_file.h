// A whole file as read-only memory: pages come in when they are touched and cost no heap.
//
//   MappedFile file("input.txt");
//   file.bytes();        // valid as long as `file` lives, also after it has moved
//
// An empty file is legal and has no bytes. The file must not shrink while it is mapped: touching a page that is gone
// ends the process with SIGBUS, which is why nothing in zero.cpp truncates a file in place. Local; throws IoError.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace zero {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace zero
