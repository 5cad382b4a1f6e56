// OwnRuleOptions: a rule that the user's program defines. It has no row and no keys, so no configuration selects it.
//
//   .optimizer = OwnRule{.rule = std::make_shared<MyRule>(), .lr = 1e-2}
//
// It may also be a MatrixRule or a FactorRule, but not a FactorRule on a device that the host cannot read. Local.
#pragma once

#include <memory>

#include "zero/optim/rule/update_rule.h"

namespace zero {

struct OwnRuleOptions {
  std::shared_ptr<const UpdateRule> rule;
  double lr = 1e-3;
  double weight_decay = 0;
  bool operator==(const OwnRuleOptions&) const = default;
};

using OwnRule = OwnRuleOptions;

// Makes the rule. Throws ConfigError under "optimizer.rule" if the rule is null, or has more than kMostOwnStates states
// or a state of an outer step. Also if it has both matrices() and sums, or if it has states of rows, columns or
// matrices, but no factors() or matrices().
std::unique_ptr<UpdateRule> make_rule(const OwnRuleOptions& options);

}  // namespace zero
