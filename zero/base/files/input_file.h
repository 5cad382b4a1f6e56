// InputFile: a user's file that stays open for reading at any offset, from several threads.
//
//   const InputFile file("train.bin");
//   file.read_at(1024, bytes);        // all of `bytes`, or an IoError
//
// It uses pread, not a mapping. If the file becomes shorter while in use, it throws an IoError with both sizes. A
// mapping would end the process with SIGBUS without a message. Bytes that are added after opening are ignored. Local;
// throws IoError with the path, the operation and the bytes. Reading from several threads is safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <sys/types.h>
#include <unistd.h>

#include "zero/base/files/file.h"

namespace zero {

class InputFile {
 public:
  using Pread = ssize_t (*)(int file, void* out, std::size_t bytes, off_t offset);  // as pread(2)

  // Opens a file. Throws IoError unless it is a regular file. Tests pass their own `pread`.
  explicit InputFile(const std::filesystem::path& path, Pread pread = ::pread);
  // Takes an open file; `path`: for messages.
  InputFile(std::string path, FileDescriptor file, Pread pread = ::pread);

  const std::string& path() const { return path_; }
  std::int64_t size_bytes() const { return size_bytes_; }  // size when the file was opened

  // Reads bytes [offset, offset + out.size()), which must be within size_bytes().
  void read_at(std::int64_t offset, std::span<std::byte> out) const;
  // Reads all size_bytes().
  [[nodiscard]] std::string read_all() const;

 private:
  [[noreturn]] void throw_shorter(std::int64_t offset, std::size_t bytes) const;

  std::string path_;
  FileDescriptor file_;
  Pread pread_;
  std::int64_t size_bytes_ = 0;
};

}  // namespace zero
