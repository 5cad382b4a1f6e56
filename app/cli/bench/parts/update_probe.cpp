#include "app/cli/bench/parts/update_probe.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "zero/base/error/check.h"

namespace zero::cli {
namespace {

// The bits of a bf16 or fp16 value: a probe converts nothing.
using Half = std::uint16_t;

// Moves 16 bits to the upper half of a float's bits.
float widened(float value) {
  return value;
}
float widened(Half bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

Half narrowed(float value) {
  return static_cast<Half>(std::bit_cast<std::uint32_t>(value) >> 16);
}

// The span's fp32 states, followed by null pointers.
using Floats = std::array<float*, 4>;
Floats fp32_states(const UpdateSpan& span) {
  Floats found{};
  std::size_t count = 0;
  for (float* const state : span.states)
    if (state != nullptr) found.at(count++) = state;
  return found;
}
std::size_t count_of(const Floats& states) {
  return static_cast<std::size_t>(std::ranges::find(states, nullptr) - states.begin());
}

// Compilers vectorise blocks of a fixed length at any optimisation level. `numel` is a multiple of this length. `Copy`
// is float if there is no copy in 16 bits. Arrays that the rule does not have are not accessed.
template <typename Gradient, typename Copy, int kStates>
void touch_elements(float* __restrict parameter, const Gradient* __restrict gradient, Copy* __restrict copy,
                    float* __restrict first, float* __restrict second, float* __restrict third, std::int64_t numel) {
  constexpr int kBlock = 16;
  for (std::int64_t at = 0; at < numel; at += kBlock) {
    for (int i = 0; i < kBlock; ++i) {
      const float g = widened(gradient[at + i]);
      if constexpr (kStates >= 1) first[at + i] = 0.5f * (first[at + i] + g);
      if constexpr (kStates >= 2) second[at + i] = 0.5f * (second[at + i] + g);
      if constexpr (kStates >= 3) third[at + i] = 0.5f * (third[at + i] + g);
      const float next = 0.5f * (parameter[at + i] + g);
      parameter[at + i] = next;
      if constexpr (std::is_same_v<Copy, Half>) copy[at + i] = narrowed(next);
    }
  }
}

// Makes the accesses of an update with two states in 8 bits, whose codes are read and written.
template <typename Gradient, typename Copy, int kStates>
void touch_codes(float* __restrict parameter, const Gradient* __restrict gradient, Copy* __restrict copy,
                 float* __restrict state, std::uint8_t* __restrict first, std::uint8_t* __restrict second,
                 std::int64_t numel) {
  constexpr int kBlock = 64;
  for (std::int64_t at = 0; at < numel; at += kBlock) {
    for (int i = 0; i < kBlock; ++i) {
      const float g = widened(gradient[at + i]);
      if constexpr (kStates >= 1) state[at + i] = 0.5f * (state[at + i] + g);
      const float next = 0.5f * (parameter[at + i] + g);
      parameter[at + i] = next;
      if constexpr (std::is_same_v<Copy, Half>) copy[at + i] = narrowed(next);
    }
    for (int i = 0; i < kBlock; ++i) first[at + i] = static_cast<std::uint8_t>(first[at + i] ^ 1U);
    for (int i = 0; i < kBlock; ++i) second[at + i] = static_cast<std::uint8_t>(second[at + i] ^ 1U);
  }
}

template <typename Gradient, typename Copy>
void touch_span(const UpdateSpan& span) {
  const auto* const gradient = reinterpret_cast<const Gradient*>(span.gradient);
  auto* const copy = reinterpret_cast<Copy*>(span.low_precision);
  const Floats states = fp32_states(span);
  const std::size_t num_states = count_of(states);
  if (span.coded[0].codes == nullptr) {
    ZERO_CHECK(num_states <= 3, "a probe of {} states", num_states);
    constexpr std::array kTouches{touch_elements<Gradient, Copy, 0>, touch_elements<Gradient, Copy, 1>,
                                  touch_elements<Gradient, Copy, 2>, touch_elements<Gradient, Copy, 3>};
    return kTouches.at(num_states)(span.parameter, gradient, copy, states[0], states[1], states[2], span.numel);
  }
  ZERO_CHECK(num_states <= 1, "a probe of two states in 8 bits and {} in fp32", num_states);
  constexpr std::array kTouches{touch_codes<Gradient, Copy, 0>, touch_codes<Gradient, Copy, 1>};
  kTouches.at(num_states)(span.parameter, gradient, copy, states[0], span.coded[0].codes, span.coded[1].codes,
                          span.numel);
  for (const CodedState& state : {span.coded[0], span.coded[1]})
    for (std::int64_t block = 0; block < span.numel / kCodeBlock; ++block) state.scales[block] += 1e-6f;
}

template <typename Gradient>
void touch_directions(float* __restrict direction, const Gradient* __restrict gradient, float* __restrict state,
                      std::int64_t numel) {
  constexpr int kBlock = 16;
  for (std::int64_t at = 0; at < numel; at += kBlock) {
    for (int i = 0; i < kBlock; ++i) {
      const float g = widened(gradient[at + i]);
      state[at + i] = 0.5f * (state[at + i] + g);
      direction[at + i] = 0.5f * (state[at + i] + g);
    }
  }
}

// Reads the first `kArrays` arrays. An element of the first array has `kFirstBytes`, an element of another array has
// four bytes. Each iteration reads a line of every array into registers, because reading single elements would take
// longer than the memory needs. It also prefetches lines, because reading one array without prefetch leaves half of the
// memory's speed unused.
using Inputs = std::array<const std::byte*, 4>;
template <int kFirstBytes, int kArrays>
void read_arrays(const Inputs& arrays, std::int64_t numel) {
  using Words = std::uint64_t __attribute__((vector_size(16)));
  constexpr std::int64_t kLine = 16, kAhead = 512;
  Words first{}, second{}, third{}, fourth{};  // not an array, which the compiler would keep in memory
  const auto words_at = [](const std::byte* bytes) {
    Words words;
    std::memcpy(&words, bytes, sizeof(words));
    return words;
  };
  for (std::int64_t at = 0; at < numel; at += kLine) {
    const std::int64_t ahead = std::min(at + kAhead, numel - 1);
    for (int array = 0; array < kArrays; ++array) {
      const int width = array == 0 ? kFirstBytes : 4;
      const std::byte* const line = arrays[static_cast<std::size_t>(array)] + at * width;
      __builtin_prefetch(arrays[static_cast<std::size_t>(array)] + ahead * width);
      first ^= words_at(line);
      second ^= words_at(line + 16);
      if (width == 2) continue;
      third ^= words_at(line + 32);
      fourth ^= words_at(line + 48);
    }
  }
  const Words seen = first ^ second ^ third ^ fourth;
  static std::atomic<std::uint64_t> sink;
  sink.store(seen[0] ^ seen[1], std::memory_order_relaxed);
}

template <int kFirstBytes>
void read_some(const Inputs& arrays, std::size_t count, std::int64_t numel) {
  constexpr std::array kReads{read_arrays<kFirstBytes, 1>, read_arrays<kFirstBytes, 2>, read_arrays<kFirstBytes, 3>,
                              read_arrays<kFirstBytes, 4>};
  kReads.at(count - 1)(arrays, numel);
}

bool is_wide(const UpdateSpan& span) {
  return span.gradient_dtype == DType::kFloat32;
}

}  // namespace

void probe_update(const UpdateSpan& span) {
  const bool copies = span.low_precision != nullptr;
  if (is_wide(span)) return copies ? touch_span<float, Half>(span) : touch_span<float, float>(span);
  copies ? touch_span<Half, Half>(span) : touch_span<Half, float>(span);
}

void probe_direction(const UpdateSpan& span) {
  float* const state = fp32_states(span)[0];
  if (is_wide(span))
    return touch_directions(span.parameter, reinterpret_cast<const float*>(span.gradient), state, span.numel);
  touch_directions(span.parameter, reinterpret_cast<const Half*>(span.gradient), state, span.numel);
}

void probe_reads(const UpdateSpan& span, std::size_t num_arrays) {
  const Floats states = fp32_states(span);
  const auto bytes_of = [](const float* values) { return reinterpret_cast<const std::byte*>(values); };
  const Inputs arrays{span.gradient, bytes_of(span.parameter), bytes_of(states[0]), bytes_of(states[1])};
  is_wide(span) ? read_some<4>(arrays, num_arrays, span.numel) : read_some<2>(arrays, num_arrays, span.numel);
}

}  // namespace zero::cli
