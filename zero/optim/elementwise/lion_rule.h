// LionOptions: Lion, the sign of a moving average (lion_kernel.h).
//
//   auto rule = make_rule(LionOptions{.lr = 1e-4});
//   rule->states()             // "exp_avg": half of Adam's states
//
// Local.
#pragma once

#include <array>
#include <memory>

#include "zero/optim/rule/rule_row.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

// Default values are those of the paper.
struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  // decoupled

  static constexpr std::array kKeys{RuleKey{"optimizer.betas", "weights of its two sums"}};
  static constexpr RuleRow kRow{.name = "lion", .keys = kKeys};
  static LionOptions from(const RuleKeys& keys);
  bool operator==(const LionOptions&) const = default;
};

using Lion = LionOptions;

// Makes the rule. Throws ConfigError for options out of range.
std::unique_ptr<UpdateRule> make_rule(const LionOptions& options);

}  // namespace zero
