// AdamW8bitOptions: AdamW with moments in 8 bits (adamw8bit_kernel.h); weights have AdamW's precision.
//
//   auto rule = make_rule(AdamW8bitOptions{.lr = 3e-4});
//   rule->states()             // "exp_avg", "exp_avg_sq", each a one-byte code
//
// Local.
#pragma once

#include <array>
#include <memory>

#include "zero/optim/rule/rule_row.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

struct AdamW8bitOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;

  static constexpr std::array kKeys{RuleKey{"optimizer.betas"}, RuleKey{"optimizer.eps"}};
  static constexpr RuleRow kRow{.name = "adamw8bit", .keys = kKeys};
  static AdamW8bitOptions from(const RuleKeys& keys);
  bool operator==(const AdamW8bitOptions&) const = default;
};

using AdamW8bit = AdamW8bitOptions;

// Makes the rule. Throws ConfigError for options out of range.
std::unique_ptr<UpdateRule> make_rule(const AdamW8bitOptions& options);

}  // namespace zero
