// share_samples(): how many samples of a micro-batch each rank takes, so that fast and slow ranks end together.
//
//   share_samples(std::array{30.0, 10.0}, 8)                    // {6, 2}
//   slowest_seconds(std::array{30.0, 10.0}, std::vector<std::int64_t>{6, 2})    // 0.2
//
// Every rank takes at least one sample: it takes part in every collective. No other way to share the samples has a
// slowest rank that ends earlier: one sample after the other goes to the rank that would then end first, the lower rank
// of two. Values only; Local.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace zero {

// `speeds`: samples a second of each rank, finite and above 0. `most`: samples that one rank may take, 0 for any
// number. `together` is at least the number of ranks, and at most `most` times that.
std::vector<std::int64_t> share_samples(std::span<const double> speeds, std::int64_t together, std::int64_t most = 0);

// Of a micro-batch: what the rank that ends last takes.
double slowest_seconds(std::span<const double> speeds, std::span<const std::int64_t> shares);

}  // namespace zero
