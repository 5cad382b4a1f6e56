#include "zero/train/sample_shares.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/check.h"
#include "zero/plan/balance.h"
#include "zero/report/rank_values.h"

namespace zero {
namespace {

constexpr double kShortest = 1e-9;  // seconds: a clock that stood still is no infinite speed

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

SampleShares::SampleShares(const ShareOptions& options, std::int64_t batch, int world, int rank)
    : options_(options), batch_(batch), rank_(rank), samples_(static_cast<std::size_t>(world), batch) {
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
  window_.push_back(own_seconds);
  if (window_.size() < kWindow) return false;
  const double mine = median(std::exchange(window_, {}));
  std::vector<double> speeds;
  for (const auto& seconds : gather_ranks<double>(comm, std::span(&mine, 1)))
    speeds.push_back(static_cast<double>(samples_[speeds.size()]) / std::max(seconds[0], kShortest));
  const auto together = batch_ * static_cast<std::int64_t>(samples_.size());
  auto better = share_samples(speeds, together, options_.most);
  if (slowest_seconds(speeds, better) > kWorthwhile * slowest_seconds(speeds, samples_)) return false;
  samples_ = std::move(better);
  is_warm_ = false;  // tensors of other sizes: the next step teaches nothing
  return true;
}

std::string SampleShares::text() const {
  return fmt::format("{}", fmt::join(samples_, " + "));
}

}  // namespace zero
