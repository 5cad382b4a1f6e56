// with_average(): wraps a rule, which then also keeps a moving average of the weights (EMA).
//
//   auto rule = with_average(make_update_rule(AdamWOptions{}), 0.999);
//   rule->states()                                    // "exp_avg", "exp_avg_sq", "ema"
//
// The average is one more state, which is split, placed, saved and counted like the others. Before a parameter's first
// update it equals the parameter. Each update computes, in fp32 with every operation rounded by itself:
//
//   ema = ema + (1 - decay) * (p - ema)
//
// The bits do not depend on how spans are cut. A rule with keeps_average() updates the average in its own pass over
// memory. For other rules, and in the first step, the average has a separate pass. Local.
#pragma once

#include <memory>

#include "zero/device/kernel.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

constexpr std::string_view kAverageState = "ema";

// Wraps `rule`. Throws ConfigError under "train.ema" unless 0 < decay < 1, or if the rule already has kMostStates
// states.
std::unique_ptr<UpdateRule> with_average(std::unique_ptr<UpdateRule> rule, double decay);

// Makes a rule whose update swaps parameters and averages (the last state). A second update restores both.
std::unique_ptr<UpdateRule> make_exchange(const UpdateRule& averaged);

// The same as device kernels. kAverage updates the average after an update; before the first update, the average is
// copied from the parameter.
struct AverageArguments {
  const float* parameter = nullptr;
  float* average = nullptr;
  std::int64_t numel = 0;
  float weight = 0;  // 1 - decay
};
extern const Kernel kAverage;
struct ExchangeArguments {
  float* parameter = nullptr;
  float* average = nullptr;
  std::byte* low_precision = nullptr;  // rounded copy of the new parameter; null: no copy
  DType low_precision_dtype = DType::kBFloat16;
  std::int64_t numel = 0;
};
extern const Kernel kExchange;

}  // namespace zero
