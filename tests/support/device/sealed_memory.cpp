#include "tests/support/device/sealed_memory.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/process/pages.h"
#include "zero/base/text/bytes.h"

namespace zero {

SealedMemory::SealedMemory(std::size_t bytes) {
  const int file = memfd_create("zero sealed memory", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0) {
    sealed_ = map_shared(file, bytes, true);
    own_ = map_shared(file, bytes, true);
  }
  const int error = errno;
  if (file >= 0) close(file);
  if (!sealed_ || !own_) {
    throw ConfigError("memory", format_bytes(static_cast<std::int64_t>(bytes)),
                      fmt::format("the system does not give this process that much ({})", std::strerror(error)),
                      "use a smaller model");
  }
  set_seal(sealed_.bytes(), Seal::kClosed);
}

void set_seal(std::span<const std::byte> sealed, Seal seal) {
  if (sealed.empty()) return;
  const std::span<const std::byte> pages = pages_of(sealed);
  const int protection = seal == Seal::kClosed     ? PROT_NONE
                         : seal == Seal::kReadable ? PROT_READ
                                                   : PROT_READ | PROT_WRITE;
  ZERO_CHECK(mprotect(const_cast<std::byte*>(pages.data()), pages.size(), protection) == 0,
             "pages of a recorded device cannot be protected: {}", std::strerror(errno));
}

std::span<const std::byte> pages_of(std::span<const std::byte> bytes) {
  static const auto kPage = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()), end = begin + bytes.size();
  const std::uintptr_t first = begin / kPage * kPage, last = (end + kPage - 1) / kPage * kPage;
  return {reinterpret_cast<const std::byte*>(first), last - first};
}

}  // namespace zero
