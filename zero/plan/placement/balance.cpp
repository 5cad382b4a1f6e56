#include "zero/plan/placement/balance.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "zero/base/error/check.h"

namespace zero {

std::vector<std::int64_t> share_samples(std::span<const RankPace> paces, std::int64_t together, std::int64_t most) {
  const auto ranks = static_cast<std::int64_t>(paces.size());
  if (most == 0) most = together;
  ZERO_CHECK(ranks > 0 && ranks <= together && together <= most * ranks, "{} samples over {} ranks, at most {} each",
             together, ranks, most);
  for (const RankPace& pace : paces)
    ZERO_CHECK(std::isfinite(pace.sample) && pace.sample > 0 && std::isfinite(pace.fixed) && pace.fixed >= 0,
               "{} s a sample, {} samples fixed", pace.sample, pace.fixed);
  std::vector<std::int64_t> shares(paces.size(), 1);
  // The time at which a rank would finish if it took one sample more, and that rank.
  using End = std::pair<double, std::size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const auto push = [&](std::size_t rank) {
    if (shares[rank] < most) ends.emplace(paces[rank].seconds(shares[rank] + 1), rank);
  };
  for (std::size_t rank = 0; rank < shares.size(); ++rank) push(rank);
  for (std::int64_t left = together - ranks; left > 0; --left) {
    const std::size_t rank = ends.top().second;
    ends.pop();
    ++shares[rank];
    push(rank);
  }
  return shares;
}

double slowest_seconds(std::span<const RankPace> paces, std::span<const std::int64_t> shares) {
  ZERO_CHECK(paces.size() == shares.size(), "{} paces, {} shares", paces.size(), shares.size());
  double seconds = 0;
  for (std::size_t rank = 0; rank < shares.size(); ++rank)
    seconds = std::max(seconds, paces[rank].seconds(shares[rank]));
  return seconds;
}

}  // namespace zero
