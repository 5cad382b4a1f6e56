// with_average(): a moving average of the weights (EMA), kept by the rule that updates them: as one more state it is split,
// placed, saved and counted as the others are.
//
//   auto rule = with_average(make_update_rule(AdamWOptions{}), 0.999);
//   rule->states()                                    // "exp_avg", "exp_avg_sq", "ema"
//
// Before a parameter's first update its average is the parameter; after each update
//
//   ema = ema + (1 - decay) * (p - ema)
//
// in fp32, each operation rounded on its own; the same bits however spans are cut. A rule that keeps_average() does so in its
// own pass over memory; after others, and in the first step, the average has a pass of its own. Local.
#pragma once

#include <memory>

#include "zero/device/kernel.h"
#include "zero/optim/update_rule.h"

namespace zero {

constexpr std::string_view kAverageState = "ema";

// Throws ConfigError under "train.ema" for a decay that is not between 0 and 1, both excluded, and for a rule that has
// kMostStates already.
std::unique_ptr<UpdateRule> with_average(std::unique_ptr<UpdateRule> rule, double decay);

// Exchanges parameters with their last state, the average; no update. Twice, and all is as before.
std::unique_ptr<UpdateRule> make_exchange(const UpdateRule& averaged);

// The same as kernels of a device: the average after an update; before the first one it is a copy of the parameter.
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
  std::byte* low_precision = nullptr;  // of the new parameter; null: none
  DType low_precision_dtype = DType::kBFloat16;
  std::int64_t numel = 0;
};
extern const Kernel kExchange;

}  // namespace zero
