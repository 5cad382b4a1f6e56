#include "zero/plan/balance.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "zero/base/check.h"

namespace zero {

std::vector<std::int64_t> share_samples(std::span<const double> speeds, std::int64_t together, std::int64_t most) {
  const auto ranks = static_cast<std::int64_t>(speeds.size());
  if (most == 0) most = together;
  ZERO_CHECK(ranks > 0 && ranks <= together && together <= most * ranks, "{} samples over {} ranks, at most {} each",
             together, ranks, most);
  for (const double speed : speeds) ZERO_CHECK(std::isfinite(speed) && speed > 0, "a speed of {}", speed);
  std::vector<std::int64_t> shares(speeds.size(), 1);
  // When a rank would end with one sample more.
  using End = std::pair<double, std::size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const auto push = [&](std::size_t rank) {
    if (shares[rank] < most) ends.emplace(static_cast<double>(shares[rank] + 1) / speeds[rank], rank);
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

double slowest_seconds(std::span<const double> speeds, std::span<const std::int64_t> shares) {
  ZERO_CHECK(speeds.size() == shares.size(), "{} speeds, {} shares", speeds.size(), shares.size());
  double seconds = 0;
  for (std::size_t rank = 0; rank < shares.size(); ++rank)
    seconds = std::max(seconds, static_cast<double>(shares[rank]) / speeds[rank]);
  return seconds;
}

}  // namespace zero
