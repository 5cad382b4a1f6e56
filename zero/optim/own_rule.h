// OwnRuleOptions: a rule that the user wrote, in a program of the user's own. It has no row and no keys: no configuration
// chooses it. It may be a MatrixRule or a FactorRule, too; the latter not on a device that the host cannot read.
//
//   .optimizer = OwnRule{.rule = std::make_shared<MyRule>(), .lr = 1e-2}
//
// Local.
#pragma once

#include <memory>

#include "zero/optim/update_rule.h"

namespace zero {

struct OwnRuleOptions {
  std::shared_ptr<const UpdateRule> rule;
  double lr = 1e-3;
  double weight_decay = 0;
  bool operator==(const OwnRuleOptions&) const = default;
};

using OwnRule = OwnRuleOptions;

// Throws ConfigError under "optimizer.rule" for a rule that is null, has more states than kMostOwnStates, a state of an outer step,
// or states of rows, columns or matrices that it has no factors() or matrices() for.
std::unique_ptr<UpdateRule> make_rule(const OwnRuleOptions& options);

}  // namespace zero
