// micro_batch_seed(): the seed of a micro-batch's randomness (dropout).
//
//   torch::manual_seed(micro_batch_seed(1337, step, micro, rank));
//
// It is a function of only (seed, step, micro-batch, rank). So a run has the same bits at every stage and placement,
// also after it was resumed at any step. It applies SplitMix64's finaliser (Steele, Lea, Flood 2014) once for each
// number. Local.
#pragma once

#include <cstdint>

namespace zero {

constexpr std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step, std::int64_t micro, int rank) {
  std::uint64_t state = 0;
  for (const std::uint64_t number :
       {seed, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(micro), static_cast<std::uint64_t>(rank)}) {
    state += number + 0x9e3779b97f4a7c15u;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
    state ^= state >> 31;
  }
  return state;
}

}  // namespace zero
