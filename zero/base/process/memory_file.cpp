#include "zero/base/process/memory_file.h"

#include <cerrno>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/pages.h"

namespace zero {

FileDescriptor make_memory_file(const char* label, std::size_t bytes) {
  FileDescriptor file(memfd_create(label, MFD_CLOEXEC));
  if (file.get() < 0) throw IoError(label, "memfd_create", errno);
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw IoError(label, fmt::format("ftruncate to {} bytes", bytes), errno);
  return file;
}

Allocation map_memory_file(int fd, std::size_t bytes, bool writable) {
  Allocation pages = map_shared(fd, bytes, writable);
  if (!pages) throw IoError("shared memory", fmt::format("mmap {} bytes", bytes), errno);
  return pages;
}

}  // namespace zero
