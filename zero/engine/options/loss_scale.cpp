#include "zero/engine/options/loss_scale.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

constexpr std::string_view kKey = "train.loss_scale";
// Makes the scale and its inverse fp32 numbers.
constexpr double kHighest = 0x1p126;

void require(double value) {
  if (value >= 1 / kHighest && value <= kHighest) return;  // false for a NaN
  throw ConfigError(kKey, fmt::format("{}", value), "a loss scale must be a finite number above 0",
                    "use \"dynamic\", or for example 1024");
}

}  // namespace

LossScale::LossScale(const LossScaleOptions& options) : options_(options), state_{.value = options.value} {
  require(options.value);
  require(options.least);
  if (options.growth_interval < 1)
    throw ConfigError(kKey, fmt::format("{}", options.growth_interval), "a growth interval must be 1 step or more",
                      "use for example 2000");
  if (options.dynamic && options.value < options.least)
    throw ConfigError(kKey, fmt::format("{}", options.value),
                      fmt::format("a dynamic scale must not begin below its smallest value, {}", options.least),
                      "begin at that value or above it");
}

void LossScale::updated() {
  if (!options_.dynamic || ++state_.good_steps < options_.growth_interval) return;
  state_ = {.value = std::min(2 * state_.value, kHighest)};
}

void LossScale::overflowed() {
  if (options_.dynamic) state_ = {.value = std::max(state_.value / 2, options_.least)};
}

void LossScale::restore(const State& state) {
  if (!options_.dynamic) return;
  const bool usable = state.value >= 1 / kHighest && state.value <= kHighest && state.good_steps >= 0;
  state_ = usable ? state : State{.value = options_.value};
  state_.value = std::max(state_.value, options_.least);
}

}  // namespace zero
