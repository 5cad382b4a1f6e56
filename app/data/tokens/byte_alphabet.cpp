#include <array>
#include <cstdint>

#include "app/data/tokens/byte_pair_tokenizer.h"

namespace zero {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr std::array<std::uint16_t, 256> make_points() {
  std::array<std::uint16_t, 256> points{};
  std::uint16_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    points[static_cast<std::size_t>(byte)] = stands_for_itself(byte) ? static_cast<std::uint16_t>(byte) : next++;
  }
  return points;
}

constexpr std::array<std::uint16_t, 256> kPoints = make_points();

int byte_of(unsigned point) {
  for (std::size_t byte = 0; byte < kPoints.size(); ++byte) {
    if (kPoints[byte] == point) return static_cast<int>(byte);
  }
  return -1;
}

}  // namespace

std::string to_alphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const unsigned point = kPoints[static_cast<unsigned char>(c)];
    if (point < 0x80) {
      out += static_cast<char>(point);
    } else {
      out += static_cast<char>(0xC0 | (point >> 6));
      out += static_cast<char>(0x80 | (point & 0x3F));
    }
  }
  return out;
}

// Each character has one or two bytes in UTF-8.
std::optional<std::string> from_alphabet(std::string_view characters) {
  std::string out;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    const auto first = static_cast<unsigned char>(characters[i]);
    unsigned point = first;
    if (first >= 0x80) {
      if ((first & 0xE0) != 0xC0 || i + 1 == characters.size()) return std::nullopt;
      const auto second = static_cast<unsigned char>(characters[++i]);
      if ((second & 0xC0) != 0x80) return std::nullopt;
      point = ((first & 0x1FU) << 6) | (second & 0x3FU);
    }
    const int byte = byte_of(point);
    if (byte < 0) return std::nullopt;
    out += static_cast<char>(byte);
  }
  return out;
}

}  // namespace zero
