#include "app/train/watch/sample_shares.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/check.h"
#include "zero/plan/placement/balance.h"

#include "app/report/files/rank_values.h"

namespace zero {
namespace {

constexpr double kErrors = 2;  // a gain of this many standard errors is significant

struct OwnSeconds {
  double mean;
  double error;
};

}  // namespace

SampleShares::SampleShares(const ShareOptions& options, std::int64_t batch, int world, int rank)
    : options_(options),
      batch_(batch),
      rank_(rank),
      samples_(static_cast<std::size_t>(world), batch),
      fits_(samples_.size()) {
  if (options_.kind != ShareKind::kGiven) return;
  ZERO_CHECK(options_.given.size() == samples_.size(), "{} shares for {} ranks", options_.given.size(), world);
  samples_ = options_.given;
}

double SampleShares::weight() const {
  return static_cast<double>(samples_[static_cast<std::size_t>(rank_)]) / static_cast<double>(batch_);
}

bool SampleShares::learn(double own_seconds, Communicator& comm) {
  if (options_.kind != ShareKind::kMeasured || comm.world() == 1) return false;
  if (!std::exchange(is_warm_, true)) return false;
  own_.add(own_seconds);
  if (!own_.is_due()) return false;
  const OwnSeconds mine{own_.value(), own_.error()};
  std::vector<RankPace> paces;
  double error = 0;
  for (const auto& rank : gather_ranks<OwnSeconds>(comm, std::span(&mine, 1))) {
    const std::size_t index = paces.size();
    paces.push_back(fits_[index].learn(samples_[index], rank[0].mean));
    error = std::max(error, rank[0].error);
  }
  const auto together = batch_ * static_cast<std::int64_t>(samples_.size());
  auto better = share_samples(paces, together, options_.most);
  const double now = slowest_seconds(paces, samples_);
  if (now - slowest_seconds(paces, better) <= std::max(kWorthwhile * now, kErrors * error)) return false;
  samples_ = std::move(better);
  own_.restart();
  is_warm_ = false;  // tensors have other sizes now: the next step is not measured
  return true;
}

std::string SampleShares::text() const {
  return fmt::format("{}", fmt::join(samples_, " + "));
}

}  // namespace zero
