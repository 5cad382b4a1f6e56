#include "zero/comm/code/topk_code.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "zero/base/error/check.h"

namespace zero {
namespace {

using Place = std::uint16_t;
constexpr auto kBlock = static_cast<std::size_t>(kTopKBlock);

// Calls use(begin, numel, taken) for each block of a range.
template <typename Use>
void for_each_block(std::size_t numel, double share, Use use) {
  for (std::size_t begin = 0; begin < numel; begin += kBlock) {
    const std::size_t count = std::min(kBlock, numel - begin);
    use(begin, count, static_cast<std::size_t>(topk_of_block(static_cast<std::int64_t>(count), share)));
  }
}

// Returns a number that is greater for elements that are taken first. It has the bits of the magnitude, which are
// ordered like magnitudes, then the position from the end. No two are equal, so the choice does not depend on the
// algorithm.
std::uint64_t rank_of(float element, std::size_t place) {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(element) & 0x7fffffffU;
  return std::uint64_t{magnitude} << 16U | (kBlock - 1 - place);
}

std::size_t place_of(std::uint64_t rank) {
  return kBlock - 1 - (rank & 0xffffU);
}

}  // namespace

void take_largest(std::span<float> elements, double share, std::span<std::byte> message) {
  ZERO_CHECK(std::ssize(message) == topk_bytes(std::ssize(elements), share), "a message of {} bytes", message.size());
  std::array<std::uint64_t, kBlock> ranks;
  std::array<Place, kBlock> places;
  std::array<float, kBlock> values;
  std::byte* to = message.data();
  for_each_block(elements.size(), share, [&](std::size_t begin, std::size_t count, std::size_t taken) {
    float* const block = elements.data() + begin;
    for (std::size_t i = 0; i < count; ++i) ranks[i] = rank_of(block[i], i);
    const auto last = ranks.begin() + static_cast<std::ptrdiff_t>(taken);
    std::nth_element(ranks.begin(), last - 1, ranks.begin() + static_cast<std::ptrdiff_t>(count), std::greater<>());
    for (std::size_t i = 0; i < taken; ++i) places[i] = static_cast<Place>(place_of(ranks[i]));
    std::sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(taken));
    for (std::size_t i = 0; i < taken; ++i) values[i] = std::exchange(block[places[i]], 0.0F);
    std::memcpy(to, places.data(), taken * sizeof(Place));
    std::memcpy(to + taken * sizeof(Place), values.data(), taken * sizeof(float));
    to += taken * (sizeof(Place) + sizeof(float));
  });
}

void add_largest(std::span<const std::byte> message, double share, std::span<float> sum) {
  ZERO_CHECK(std::ssize(message) == topk_bytes(std::ssize(sum), share), "a message of {} bytes", message.size());
  std::array<Place, kBlock> places;
  std::array<float, kBlock> values;
  const std::byte* from = message.data();
  for_each_block(sum.size(), share, [&](std::size_t begin, std::size_t count, std::size_t taken) {
    std::memcpy(places.data(), from, taken * sizeof(Place));
    std::memcpy(values.data(), from + taken * sizeof(Place), taken * sizeof(float));
    from += taken * (sizeof(Place) + sizeof(float));
    for (std::size_t i = 0; i < taken; ++i) {
      ZERO_CHECK(places[i] < count, "element {} of a block of {}", places[i], count);
      sum[begin + places[i]] += values[i];
    }
  });
}

}  // namespace zero
