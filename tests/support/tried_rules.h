// tried_rules(): each rule of the registry, and the forms of sgd with a state, all with weight decay, under names for
// tests.
//
//   for (const auto& [name, options] : tried_rules()) ...
#pragma once

#include <ostream>
#include <string>
#include <variant>
#include <vector>

#include "zero/optim/rule_registry.h"

namespace zero {

struct TriedRule {
  std::string name;
  OptimizerOptions options;
};
inline void PrintTo(const TriedRule& rule, std::ostream* out) {
  *out << rule.name;
}

inline constexpr std::size_t kNumTriedRules = kRuleTable.size() + 2;

inline const std::vector<TriedRule>& tried_rules() {
  static const std::vector<TriedRule> tried = [] {
    std::vector<TriedRule> rules{{"nesterov", SgdOptions{.momentum = 0.9, .nesterov = true}},
                                 {"momentum", SgdOptions{.momentum = 0.9}}};
    for (OptimizerOptions options : default_options()) rules.push_back({std::string(name_of(options)), options});
    for (auto& [name, options] : rules) {
      std::visit([](auto& chosen) { chosen.weight_decay = 0.1; }, options);
      if (auto* const muon = std::get_if<MuonOptions>(&options)) muon->adamw.lr = 2e-3;
    }
    return rules;
  }();
  return tried;
}

}  // namespace zero
