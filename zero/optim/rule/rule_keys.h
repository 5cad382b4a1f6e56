// RuleKeys: the keys of [optimizer] that update rules read, with their default values.
//
//   LionOptions::from({.lr = 1e-4, .betas = {0.9, 0.99}})
//
// The function from() of a rule's options takes the keys that the rule reads (RuleRow::keys). A new key needs a member
// here, and a row in app/config/options/option_table.cpp. Values; Local.
#pragma once

#include <array>
#include <limits>
#include <string>

namespace zero {

struct RuleKeys {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.99};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0;
  bool nesterov = false;
  std::array<double, 2> trust_ratio = {0.01, 10};
  std::string muon_scale = "original";
  double adamw_lr = 0;
  // Keys of adafactor, with the default values of torch.optim.Adafactor.
  double beta2_decay = -0.8;
  double eps1 = std::numeric_limits<float>::epsilon();
  double eps2 = 1e-3;
  double clip = 1;
  bool operator==(const RuleKeys&) const = default;
};

}  // namespace zero
