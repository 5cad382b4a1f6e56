#include "zero/base/files/random_bytes.h"

#include <cerrno>
#include <vector>

#include <fmt/format.h>
#include <sys/random.h>

#include "zero/base/error/error.h"

namespace zero {

void fill_with_random_bytes(std::span<std::byte> memory) {
  while (!memory.empty()) {
    const ssize_t count = ::getrandom(memory.data(), memory.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw IoError("getrandom", fmt::format("read of {} bytes", memory.size()), errno);
    memory = memory.subspan(static_cast<std::size_t>(count));
  }
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  fill_with_random_bytes(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

std::string random_name(std::size_t bytes) {
  std::vector<std::byte> drawn(bytes);
  fill_with_random_bytes(drawn);
  std::string name;
  for (const std::byte byte : drawn) name += fmt::format("{:02x}", std::to_integer<int>(byte));
  return name;
}

}  // namespace zero
