// fill_with_random_bytes(): random bytes from the kernel, for unique names, seeds and nonces.
//
//   random_name(8)                            // "9f86d081884c7d65": 8 bytes in hexadecimal
//   std::mt19937_64 draw(random_number());
//
// Local; thread-safe. Throws IoError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace zero {

void fill_with_random_bytes(std::span<std::byte> memory);
std::uint64_t random_number();
std::string random_name(std::size_t bytes);

}  // namespace zero
