// share_samples(): assigns the samples of a micro-batch to ranks, so fast and slow ranks finish at the same time.
//
//   share_samples(std::array{RankPace{.sample = 1.0 / 30}, RankPace{.sample = 1.0 / 10}}, 8)    // {6, 2}
//   slowest_seconds(paces, std::vector<std::int64_t>{6, 2})                                     // 0.2
//
// Every rank takes at least one sample, because every rank takes part in every collective. The result is optimal: no
// other shares let the slowest rank finish earlier. Each next sample goes to the rank that would finish first with it;
// of two equal ranks, to the lower one. Values only; Local.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace zero {

// A rank's compute time. `fixed` is the part of a step that does not depend on the number of samples, such as the
// update; it is expressed as the number of samples that take as long. A slower rank is slower in both parts.
struct RankPace {
  double sample = 0;  // seconds; finite, above 0
  double fixed = 0;   // finite, not below 0
  double seconds(std::int64_t samples) const { return sample * (fixed + static_cast<double>(samples)); }
};

// Shares `together` samples among the ranks. `most`: limit of samples per rank; 0: no limit. `together` must be at
// least the number of ranks, and at most `most` times the number of ranks.
std::vector<std::int64_t> share_samples(std::span<const RankPace> paces, std::int64_t together, std::int64_t most = 0);

// Returns the time of a micro-batch on the rank that finishes last.
double slowest_seconds(std::span<const RankPace> paces, std::span<const std::int64_t> shares);

}  // namespace zero
