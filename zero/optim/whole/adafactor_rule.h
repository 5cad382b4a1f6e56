// AdafactorOptions: Adafactor, with a mean square per row and column of a matrix (adafactor_kernel.h).
//
//   auto rule = make_rule(AdafactorOptions{.lr = 1e-2});
//   rule->states()             // "row_var" and "col_var" of matrices, "variance" of other parameters
//   rule->factors()->...       // updates row_var and col_var before update(); see FactorRule
//
// Matrices are parameters with two or more dimensions: the first dimension is the rows, all others together the
// columns. Other parameters have a mean square per element. A step needs two sums over each parameter (add_sums()): the
// squares of the parameter, and the squares of its direction. Local.
#pragma once

#include <array>
#include <limits>
#include <memory>

#include "zero/optim/rule/rule_row.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

// Default values are those of torch.optim.Adafactor. Weight decay is decoupled.
struct AdafactorOptions {
  double lr = 1e-2;  // upper bound of the relative step, which is 1 / sqrt(step) if that is less
  double beta2_decay = -0.8;
  double eps1 = std::numeric_limits<float>::epsilon();  // torch's eps[0]: lower bound of variances, as a root
  double eps2 = 1e-3;  // torch's eps[1]: lower bound of the parameter's rms, which scales its step
  double clip = 1;     // torch's d: upper bound of a direction's rms
  double weight_decay = 0;

  static constexpr std::array kKeys{RuleKey{"optimizer.lr", "that of a relative step", "0.01"},
                                    RuleKey{"optimizer.beta2_decay"},
                                    RuleKey{"optimizer.eps1"},
                                    RuleKey{"optimizer.eps2"},
                                    RuleKey{"optimizer.clip"},
                                    RuleKey{.name = "optimizer.weight_decay", .usual = "0.0"}};
  static constexpr RuleRow kRow{.name = "adafactor", .needs = RuleNeeds::kRowsAndColumns, .keys = kKeys};
  static AdafactorOptions from(const RuleKeys& keys);
  bool operator==(const AdafactorOptions&) const = default;
};

using Adafactor = AdafactorOptions;

// Makes the rule. Throws ConfigError for options out of range.
std::unique_ptr<UpdateRule> make_rule(const AdafactorOptions& options);

}  // namespace zero
