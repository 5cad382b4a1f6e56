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
// in fp32, each operation rounded on its own; the same bits however spans are cut. Local.
#pragma once

#include <memory>

#include "zero/optim/update_rule.h"

namespace zero {

constexpr std::string_view kAverageState = "ema";

// Throws ConfigError under "train.ema" for a decay that is not between 0 and 1, both excluded, and for a rule that has
// kMostStates already.
std::unique_ptr<UpdateRule> with_average(std::unique_ptr<UpdateRule> rule, double decay);

// Exchanges parameters with their last state, the average; no update. Twice, and all is as before.
std::unique_ptr<UpdateRule> make_exchange(const UpdateRule& averaged);

}  // namespace zero
