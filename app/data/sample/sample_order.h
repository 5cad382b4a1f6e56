// shuffled_row(), shuffled_offset(): pure functions that return the g-th sample of a run.
//
// g = global_sample_index(...) counts all samples of the run, over steps, micro-batches, ranks and rows. So a run can
// be resumed, resharded or repeated from a few numbers. The samples of a rank depend on the world only through g.
//
// The hash is the finaliser of SplitMix64 (Steele, Lea, Flood 2014) over a hashed seed. A multiply-high maps it to a
// range, so the bias is below count / 2^64. The permutation is a 6-round Feistel network on the smallest even number of
// bits that holds `count`. It is repeated until the result is below `count` (Black, Rogaway 2002), at most 4 times on
// average. The values are part of the contract: a change would change every published run.
//
// Values; Local.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "zero/base/numbers/choice.h"

namespace zero {

enum class Order { kShuffled, kSequential };
// Words of data.order.
inline constexpr std::array<Choice<Order>, 2> kOrders{
    {{"shuffled", Order::kShuffled}, {"sequential", Order::kSequential}}};

// A rank's samples of a micro-batch. Ranks take samples in rank order.
struct BatchGrid {
  std::int64_t batch = 1;     // samples of this rank
  std::int64_t before = 0;    // samples of lower ranks
  std::int64_t together = 1;  // samples of all ranks
};

// Returns the grid of a rank if every rank takes `batch` samples. `rank` must be in [0, world).
BatchGrid even_grid(std::int64_t batch, int world, int rank);
// Returns the grid of a rank if rank r takes shares[r] samples, at least one.
BatchGrid shared_grid(std::span<const std::int64_t> shares, int rank);

// Returns micro_batch * together + before + row. micro_batch = step * accumulate + micro counts the micro-batches of
// the run. The samples of a micro-batch do not depend on the ranks' shares.
std::int64_t global_sample_index(const BatchGrid& grid, std::int64_t micro_batch, std::int64_t row);

// Draws with replacement, for windows of tokens: each g is an independent uniform draw from [0, count).
std::int64_t shuffled_offset(std::uint64_t seed, std::int64_t g, std::int64_t count);
// Draws without replacement, for rows: every epoch (`count` samples) is a new permutation of all rows.
std::int64_t shuffled_row(std::uint64_t seed, std::int64_t g, std::int64_t count);

}  // namespace zero
