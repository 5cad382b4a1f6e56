// AdafactorOptions: Adafactor, a mean square of each row and each column of a matrix in place of one of each element (adafactor_kernel.h).
// Matrices are parameters with two or more dimensions: rows are the first dimension, columns all others together. Every
// other parameter has a mean square of each element.
//
//   auto rule = make_rule(AdafactorOptions{.lr = 1e-2});
//   rule->states()             // "variance" of others than matrices; "row_var" and "col_var" of matrices
//   rule->factors()->...       // what happens to these of a matrix before update(); see FactorRule
//
// A step wants two sums over each parameter, add_sums(): of its squares, and of those of its direction. Local.
#pragma once

#include <array>
#include <limits>
#include <memory>

#include "zero/optim/rule_keys.h"
#include "zero/optim/rule_row.h"
#include "zero/optim/update_rule.h"

namespace zero {

// Defaults are torch.optim.Adafactor's. Decay is decoupled.
struct AdafactorOptions {
  double lr = 1e-2;  // most of a relative step: 1 / sqrt(step) where that is less
  double beta2_decay = -0.8;
  double eps1 = std::numeric_limits<float>::epsilon();  // torch's eps[0]: bounds variances from below
  double eps2 = 1e-3;                                   // torch's eps[1]: least rms of a parameter that scales its step
  double clip = 1;                                      // torch's d: rms of a direction from which it is shortened
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

// Throws ConfigError for options out of range.
std::unique_ptr<UpdateRule> make_rule(const AdafactorOptions& options);

}  // namespace zero
