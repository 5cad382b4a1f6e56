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
#include <span>

namespace zero {

enum class Order { kShuffled, kSequential };

// A rank's place among the samples of a micro-batch, which the ranks take in their order.
struct BatchGrid {
  std::int64_t batch = 1;     // samples of this rank
  std::int64_t before = 0;    // samples of the ranks before it
  std::int64_t together = 1;  // samples of all ranks
};

// Every rank takes as many. Rank out of range is our bug.
BatchGrid even_grid(std::int64_t batch, int world, int rank);
// Rank r takes shares[r], at least one.
BatchGrid shared_grid(std::span<const std::int64_t> shares, int rank);

// micro_batch * together + before + row, where micro_batch = step * accumulate + micro counts them over the run. Which
// samples a micro-batch has does not depend on how its ranks share them.
std::int64_t global_sample_index(const BatchGrid& grid, std::int64_t micro_batch, std::int64_t row);

std::int64_t shuffled_offset(std::uint64_t seed, std::int64_t g, std::int64_t count);
std::int64_t shuffled_row(std::uint64_t seed, std::int64_t g, std::int64_t count);

}  // namespace zero
