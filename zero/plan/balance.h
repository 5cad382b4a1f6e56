// share_samples(): how many samples of a micro-batch each rank takes, so that fast and slow ranks end together.
//
//   share_samples(std::array{RankPace{.sample = 1.0 / 30}, RankPace{.sample = 1.0 / 10}}, 8)    // {6, 2}
//   slowest_seconds(paces, std::vector<std::int64_t>{6, 2})                                     // 0.2
//
// Every rank takes at least one sample: it takes part in every collective. No other way to share the samples has a
// slowest rank that ends earlier: one sample after the other goes to the rank that would then end first, the lower rank
// of two. Values only; Local.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace zero {

// How long a rank computes. A step has a part that is the same for every number of samples, such as the update: `fixed`
// says how many samples would take as long. A rank that slows down slows down in both.
struct RankPace {
  double sample = 0;  // seconds; finite, above 0
  double fixed = 0;   // finite, not below 0
  double seconds(std::int64_t samples) const { return sample * (fixed + static_cast<double>(samples)); }
};

// `most`: samples that one rank may take, 0 for any number. `together` is at least the number of ranks, and at most
// `most` times that.
std::vector<std::int64_t> share_samples(std::span<const RankPace> paces, std::int64_t together, std::int64_t most = 0);

// Of a micro-batch: the time of the rank that ends last.
double slowest_seconds(std::span<const RankPace> paces, std::span<const std::int64_t> shares);

}  // namespace zero
