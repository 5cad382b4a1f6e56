// A user's file that stays open for reading: any part of it, at any time, from several threads.
//
//   const InputFile file("train.bin");
//   file.read_at(1024, bytes);        // all of `bytes`, or an IoError
//
// It is read (pread), never mapped: a file that becomes shorter while it is in use is an IoError with both sizes, where
// a mapping would end the process with SIGBUS and no word. What is added to the file after it was opened is not seen.
//
// Local; throws IoError with the path, the operation and the bytes. Reading from several threads is safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <sys/types.h>
#include <unistd.h>

#include "zero/base/file.h"

namespace zero {

class InputFile {
 public:
  using Pread = ssize_t (*)(int file, void* out, std::size_t bytes, off_t offset);  // as pread(2)

  // IoError unless it is a regular file. Tests give a `pread` of their own.
  explicit InputFile(const std::filesystem::path& path, Pread pread = ::pread);
  // One that is open already; `path` is for messages.
  InputFile(std::string path, FileDescriptor file, Pread pread = ::pread);

  const std::string& path() const { return path_; }
  std::int64_t size_bytes() const { return size_bytes_; }  // when it was opened

  // Bytes [offset, offset + out.size()), which must lie within size_bytes().
  void read_at(std::int64_t offset, std::span<std::byte> out) const;
  // All size_bytes().
  [[nodiscard]] std::string read_all() const;

 private:
  [[noreturn]] void throw_shorter(std::int64_t offset, std::size_t bytes) const;

  std::string path_;
  FileDescriptor file_;
  Pread pread_;
  std::int64_t size_bytes_ = 0;
};

}  // namespace zero
