// AdamWOptions, AdamOptions: Adam with decoupled weight decay (AdamW), and with decay added to the gradient (Adam).
//
//   auto rule = make_rule(AdamWOptions{.lr = 3e-4, .beta2 = 0.95});
//   rule->states()             // "exp_avg", "exp_avg_sq"
//
// The arithmetic is PyTorch's (adam_kernel.h). Local.
#pragma once

#include <array>
#include <memory>

#include "zero/optim/rule/rule_row.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

// Default values are those of torch.optim. Weight decay is decoupled.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;

  static constexpr std::array kKeys{RuleKey{"optimizer.betas"}, RuleKey{"optimizer.eps"}};
  static constexpr RuleRow kRow{.name = "adamw", .keys = kKeys};
  static AdamWOptions from(const RuleKeys& keys);
  bool operator==(const AdamWOptions&) const = default;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // coupled as in torch.optim.Adam: added to the gradient

  static constexpr std::array kKeys{RuleKey{"optimizer.betas"}, RuleKey{"optimizer.eps"},
                                    RuleKey{"optimizer.weight_decay", "added to the gradient", "0.0"}};
  static constexpr RuleRow kRow{.name = "adam", .keys = kKeys};
  static AdamOptions from(const RuleKeys& keys);
  bool operator==(const AdamOptions&) const = default;
};

using AdamW = AdamWOptions;
using Adam = AdamOptions;

// Make the rules. Both throw ConfigError for options out of range.
std::unique_ptr<UpdateRule> make_rule(const AdamWOptions& options);
std::unique_ptr<UpdateRule> make_rule(const AdamOptions& options);

}  // namespace zero
