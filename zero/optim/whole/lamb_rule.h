// LambOptions: LAMB, Adam's direction with a step in proportion to the parameter's norm (lamb_kernel.h).
//
//   auto rule = make_rule(LambOptions{.lr = 1e-3});
//   rule->states()             // "exp_avg", "exp_avg_sq"
//   rule->num_sums()           // 2 over each whole parameter: squares of the parameter, and of its direction
//
// Local.
#pragma once

#include <array>
#include <memory>

#include "zero/optim/rule/rule_row.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

// Default values are those of DeepSpeed. Weight decay is part of the direction.
struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double least_ratio = 0.01;  // bounds of the parameter's norm over its direction's norm
  double most_ratio = 10;

  static constexpr std::array kKeys{RuleKey{"optimizer.betas"}, RuleKey{"optimizer.eps"},
                                    RuleKey{"optimizer.trust_ratio"}};
  static constexpr RuleRow kRow{.name = "lamb", .needs = RuleNeeds::kSums, .keys = kKeys};
  static LambOptions from(const RuleKeys& keys);
  bool operator==(const LambOptions&) const = default;
};

using Lamb = LambOptions;

// Makes the rule. Throws ConfigError for options out of range.
std::unique_ptr<UpdateRule> make_rule(const LambOptions& options);

}  // namespace zero
