#include "zero/checkpoint/image/state_sums.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "zero/base/error/check.h"

namespace zero {
namespace {

// Constants of SplitMix64 and of xxHash: odd, with about as many ones as zeros.
constexpr std::uint64_t kOfIndex = 0x9E3779B97F4A7C15, kOfBits = 0xC2B2AE3D27D4EB4F, kOfMix = 0xBF58476D1CE4E5B9;

template <typename Bits>
std::uint64_t sum_of_elements(std::uint64_t key, std::int64_t begin, std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  const std::size_t count = bytes.size() / sizeof(Bits);
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    std::uint64_t hash = key + (static_cast<std::uint64_t>(begin) + i) * kOfIndex;
    hash = (hash ^ (hash >> 29)) + (static_cast<std::uint64_t>(bits) + 1) * kOfBits;
    hash = (hash ^ (hash >> 31)) * kOfMix;
    sum += hash ^ (hash >> 32);
  }
  return sum;
}

}  // namespace

void StateSums::add(std::string_view state, std::string_view tensor, std::int64_t begin,
                    std::span<const std::byte> elements, std::int64_t element_bytes) {
  ZERO_CHECK(element_bytes == 2 || element_bytes == 4, "elements of {} bytes", element_bytes);
  const std::uint64_t key = XXH3_64bits_withSeed(tensor.data(), tensor.size(), XXH3_64bits(state.data(), state.size()));
  auto found = sums_.find(state);
  if (found == sums_.end()) found = sums_.emplace(std::string(state), 0).first;
  found->second += element_bytes == 4 ? sum_of_elements<std::uint32_t>(key, begin, elements)
                                      : sum_of_elements<std::uint16_t>(key, begin, elements);
}

void StateSums::merge(const StateSums& other) {
  for (const auto& [state, sum] : other.sums_) sums_[state] += sum;
}

std::optional<StateSums> StateSums::of_text(std::string_view text) {
  constexpr std::size_t kDigits = 16;
  StateSums sums;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(", "));
    text.remove_prefix(std::min(text.size(), entry.size() + 2));
    const std::size_t space = entry.rfind(' ');
    if (space == std::string_view::npos || space == 0 || entry.size() - space - 1 != kDigits) return std::nullopt;
    std::uint64_t sum = 0;
    const auto [end, error] = std::from_chars(entry.data() + space + 1, entry.data() + entry.size(), sum, 16);
    if (error != std::errc() || end != entry.data() + entry.size()) return std::nullopt;
    if (!sums.sums_.emplace(std::string(entry.substr(0, space)), sum).second) return std::nullopt;
  }
  return sums;
}

std::string to_text(const StateSums& sums) {
  std::string text;
  for (const auto& [state, sum] : sums.of_states())
    text += fmt::format("{}{} {:016x}", text.empty() ? "" : ", ", state, sum);
  return text;
}

std::int64_t element_bytes(const Manifest& manifest, int tensor, int state) {
  return state == 0 ? static_cast<std::int64_t>(size_of(manifest.tensors[static_cast<std::size_t>(tensor)].dtype))
                    : static_cast<std::int64_t>(sizeof(float));
}

SumsOfFile::SumsOfFile(const Manifest& manifest, std::span<const SavedSlice> slices) : manifest_(manifest) {
  for (const SavedSlice& slice : slices) slices_.push_back(&slice);
  std::ranges::sort(slices_, {}, [](const SavedSlice* slice) { return slice->offset; });
}

std::int64_t SumsOfFile::end_of(const SavedSlice& slice) const {
  return slice.offset + slice.numel * element_bytes(manifest_, slice.tensor, slice.state);
}

void SumsOfFile::add(std::span<const std::byte> bytes) {
  while (!bytes.empty() && next_ < slices_.size()) {
    const SavedSlice& slice = *slices_[next_];
    if (offset_ < slice.offset) {
      const std::size_t skip = std::min(bytes.size(), static_cast<std::size_t>(slice.offset - offset_));
      bytes = bytes.subspan(skip);
      offset_ += static_cast<std::int64_t>(skip);
      continue;
    }
    const std::int64_t size = element_bytes(manifest_, slice.tensor, slice.state);
    const auto take = std::min(bytes.size(), static_cast<std::size_t>(end_of(slice) - offset_));
    std::span<const std::byte> here = bytes.first(take);
    const auto add_whole = [&](std::span<const std::byte> elements, std::int64_t at) {
      sums_.add(manifest_.states[static_cast<std::size_t>(slice.state)],
                manifest_.tensors[static_cast<std::size_t>(slice.tensor)].name,
                slice.begin + (at - slice.offset) / size, elements, size);
    };
    std::int64_t at = offset_;
    if (!part_.empty()) {
      const std::size_t missing = std::min(here.size(), static_cast<std::size_t>(size) - part_.size());
      const std::int64_t begin = at - std::ssize(part_);
      part_.insert(part_.end(), here.begin(), here.begin() + static_cast<std::ptrdiff_t>(missing));
      here = here.subspan(missing);
      at += static_cast<std::int64_t>(missing);
      if (std::ssize(part_) == size) {
        add_whole(part_, begin);
        part_.clear();
      }
    }
    const std::size_t whole = here.size() - here.size() % static_cast<std::size_t>(size);
    if (whole > 0) add_whole(here.first(whole), at);
    part_.insert(part_.end(), here.begin() + static_cast<std::ptrdiff_t>(whole), here.end());
    bytes = bytes.subspan(take);
    offset_ += static_cast<std::int64_t>(take);
    if (offset_ == end_of(slice)) ++next_;
  }
  offset_ += std::ssize(bytes);
}

}  // namespace zero
