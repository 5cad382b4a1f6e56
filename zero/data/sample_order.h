// Sample order: pure functions that say which sample is the g-th of a run, so that a run can be resumed, resharded or
// repeated from numbers alone.
//
// g = global_sample_index(...) counts every sample of the run, over steps, micro-batches, ranks and rows. So the
// samples of a rank depend on the world only through g.
//
// Two ways to draw:
//   shuffled_offset   with replacement, for token windows: each g is an independent uniform draw from [0, count)
//   shuffled_row      without replacement, for rows: every epoch (count samples) is a new permutation of all rows
// Both depend on (seed, g) alone. Hash: the finaliser of SplitMix64 (Steele, Lea, Flood 2014) over a hashed seed; range
// by multiply-high, so the bias is below count / 2^64. The permutation is a 6-round Feistel network on the smallest
// even number of bits that holds `count`, walked until it lands below `count` (Black, Rogaway 2002): at most 4 tries
// expected. The values are part of the contract: a change would change every published run.
#pragma once

#include <cstdint>

namespace zero {

enum class Order { kShuffled, kSequential };

// A rank's place among the samples of a run.
struct BatchGrid {
  std::int64_t batch = 1;  // samples per rank and micro-batch
  int world = 1;
  int rank = 0;
};

// (micro_batch * world + rank) * batch + row, where micro_batch = step * accumulate + micro counts them over the run.
std::int64_t global_sample_index(const BatchGrid& grid, std::int64_t micro_batch, std::int64_t row);

std::int64_t shuffled_offset(std::uint64_t seed, std::int64_t g, std::int64_t count);
std::int64_t shuffled_row(std::uint64_t seed, std::int64_t g, std::int64_t count);

}  // namespace zero
