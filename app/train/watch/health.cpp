#include "app/train/watch/health.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastRise = 0.1;           // least rise of a loss, as a fraction of the mean
const double kLeastLogRise = std::log(2.0);  // least rise of a norm's logarithm

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments_of(const std::deque<double>& values) {
  Moments moments;
  for (const double value : values) moments.mean += value;
  moments.mean /= static_cast<double>(values.size());
  for (const double value : values) moments.deviation += (value - moments.mean) * (value - moments.mean);
  moments.deviation = std::sqrt(moments.deviation / static_cast<double>(values.size()));
  return moments;
}

void keep_newest(std::deque<double>& values) {
  if (values.size() > HealthPolicy::kRecent) values.pop_front();
}

}  // namespace

void require_possible(const HealthOptions& options, bool saves_checkpoints) {
  if (!options.rewinds() || saves_checkpoints) return;
  const std::string_view key = options.spike == HealthAction::kRewind        ? "health.spike"
                               : options.non_finite == HealthAction::kRewind ? "health.non_finite"
                                                                             : "health.on_corruption";
  throw ConfigError(key, "rewind", "there are no checkpoints to return to", "set checkpoint.every");
}

StepLimits HealthPolicy::limits(double loss) const {
  if (!options_.judges()) return {};
  StepLimits limits{.loss = loss};
  if (options_.spike == HealthAction::kIgnore) return limits;
  if (losses_.size() >= kFewest) {
    const auto [mean, deviation] = moments_of(losses_);
    const double rise = std::max(options_.spike_sigma * deviation, kLeastRise * std::abs(mean));
    limits.max_loss = rise > 0 ? mean + rise : kInfinity;
  }
  if (log_norms_.size() >= kFewest) {
    const auto [mean, deviation] = moments_of(log_norms_);
    limits.max_grad_norm = std::exp(mean + std::max(options_.spike_sigma * deviation, kLeastLogRise));
  }
  return limits;
}

HealthAction HealthPolicy::after(const StepReport& report) {
  switch (report.reason) {
    case SkipReason::kNone:
    case SkipReason::kOverflow:  // the loss is valid, and the norm is infinite
      see(static_cast<double>(static_cast<float>(report.loss)), report.grad_norm);
      return HealthAction::kIgnore;
    case SkipReason::kNonFinite:
      return options_.non_finite;
    case SkipReason::kLossSpike:
    case SkipReason::kNormSpike:
      return options_.spike;
  }
  return HealthAction::kIgnore;
}

void HealthPolicy::see(double loss, double norm) {
  if (std::isfinite(loss)) losses_.push_back(loss);
  if (std::isfinite(norm) && norm > 0) log_norms_.push_back(std::log(norm));
  keep_newest(losses_);
  keep_newest(log_norms_);
}

void HealthPolicy::restore(std::span<const float> losses, std::span<const double> norms,
                           std::span<const std::int64_t> skipped) {
  ZERO_CHECK(losses.size() == norms.size(), "{} losses, {} norms", losses.size(), norms.size());
  losses_.clear();
  log_norms_.clear();
  for (std::size_t step = 0; step < losses.size(); ++step) {
    if (std::ranges::binary_search(skipped, static_cast<std::int64_t>(step) + 1)) continue;
    see(static_cast<double>(losses[step]), norms[step]);
  }
}

}  // namespace zero
