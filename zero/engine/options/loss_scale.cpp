#include "zero/engine/options/loss_scale.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"

namespace zero {
namespace {

constexpr std::string_view kKey = "train.loss_scale";
// Makes the scale and its inverse fp32 numbers.
constexpr double kHighest = 0x1p126;
constexpr NumberRange kScales{.least = 1 / kHighest, .most = kHighest};

}  // namespace

LossScale::LossScale(const LossScaleOptions& options)
    : options_(options), state_{.value = options.value}, overflows_left_(options.hysteresis) {
  require_number(kKey, options.value, kScales, "use \"dynamic\", or for example 1024");
  require_number("train.loss_scale.least", options.least, kScales, "use for example 1");
  require_number("train.loss_scale.growth_interval", static_cast<double>(options.growth_interval), kAtLeastOne,
                 "use for example 2000 steps");
  require_number("train.loss_scale.hysteresis", static_cast<double>(options.hysteresis), kAtLeastOne,
                 "use 1: each overflow halves the scale");
  if (options.dynamic && options.value < options.least)
    throw ConfigError(kKey, fmt::format("{}", options.value),
                      fmt::format("a dynamic scale must not begin below its smallest value, {}", options.least),
                      "begin at that value or above it");
}

void LossScale::updated() {
  if (!options_.dynamic) return;
  const bool grows = ++state_.good_steps >= options_.growth_interval;
  if (grows || options_.restored_by_update) overflows_left_ = options_.hysteresis;
  if (!grows) return;
  state_ = {.value = std::min(2 * state_.value, kHighest)};
}

void LossScale::overflowed() {
  if (!options_.dynamic) return;
  state_.good_steps = 0;
  if (overflows_left_ > 1) {
    --overflows_left_;
  } else {
    state_.value = std::max(state_.value / 2, options_.least);
  }
}

void LossScale::restore(const State& state) {
  if (!options_.dynamic) return;
  const bool usable = kScales.contains(state.value) && state.good_steps >= 0;
  state_ = usable ? state : State{.value = options_.value};
  overflows_left_ = options_.hysteresis;
  state_.value = std::max(state_.value, options_.least);
}

}  // namespace zero
