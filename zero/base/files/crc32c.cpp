#include "zero/base/files/crc32c.h"

#include <array>

namespace zero {
namespace {

constexpr std::uint32_t kReversedPolynomial = 0x82F63B78U;

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1U) ^ ((sum & 1U) != 0 ? kReversedPolynomial : 0U);
    table[byte] = sum;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t sum = ~0U;
  for (const char c : bytes) sum = (sum >> 8U) ^ kTable[(sum ^ static_cast<unsigned char>(c)) & 0xFFU];
  return ~sum;
}

}  // namespace zero
