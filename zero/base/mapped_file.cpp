#include "zero/base/mapped_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "zero/base/error.h"
#include "zero/base/file.h"

namespace zero {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const FileDescriptor file = FileDescriptor::open(path, O_RDONLY);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw IoError(path.native(), "stat", errno);
  if (!S_ISREG(info.st_mode)) throw IoError(path.native(), "map", 0, "not a regular file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return;  // mmap refuses a length of zero
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  const int error = errno;
  if (data == MAP_FAILED) throw IoError(path.native(), fmt::format("map of {} bytes", size), error);
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace zero
