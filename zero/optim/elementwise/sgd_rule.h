// SgdOptions: stochastic gradient descent, with or without momentum, with PyTorch's arithmetic (sgd_kernel.h).
//
//   auto rule = make_rule(SgdOptions{.lr = 1e-2, .momentum = 0.9});
//   rule->states()             // "momentum_buffer"; none without momentum
//
// Local.
#pragma once

#include <array>
#include <memory>

#include "zero/optim/rule/rule_row.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;
  double weight_decay = 0;  // coupled as in torch.optim.SGD: added to the gradient
  bool nesterov = false;    // needs momentum

  static constexpr std::array kKeys{RuleKey{"optimizer.momentum"},
                                    RuleKey{"optimizer.nesterov", "needs optimizer.momentum"},
                                    RuleKey{"optimizer.weight_decay", "added to the gradient", "0.0"}};
  static constexpr RuleRow kRow{.name = "sgd", .keys = kKeys};
  static SgdOptions from(const RuleKeys& keys);
  bool operator==(const SgdOptions&) const = default;
};

using Sgd = SgdOptions;

// Makes the rule. Throws ConfigError for options out of range.
std::unique_ptr<UpdateRule> make_rule(const SgdOptions& options);

}  // namespace zero
