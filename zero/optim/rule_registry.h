// Rules: the list of update rules. A line in it adds a rule: its options say all else of it (their row kRow, from() and
// make_rule()). The variant of options, the table of rows, the configuration's names, keys and help texts, and the lists of
// benchmarks and tests are made from it.
//
//   auto rule = make_update_rule(AdamWOptions{.beta2 = 0.95});
//   optimizer_options("lion", {.lr = 1e-4})          // LionOptions
//   rule_row("lamb").needs                           // RuleNeeds::kSums
//   rule_names(RuleNeeds::kElements)                 // "adamw, adam, sgd, lion or adamw8bit"
//
// Local. No torch.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zero/base/check.h"
#include "zero/base/name_lists.h"
#include "zero/optim/adafactor_rule.h"
#include "zero/optim/adam_rule.h"
#include "zero/optim/adamw8bit_rule.h"
#include "zero/optim/lamb_rule.h"
#include "zero/optim/lion_rule.h"
#include "zero/optim/muon_rule.h"
#include "zero/optim/own_rule.h"
#include "zero/optim/rule_keys.h"
#include "zero/optim/rule_row.h"
#include "zero/optim/sgd_rule.h"
#include "zero/optim/update_rule.h"

namespace zero {

template <typename... Options>
struct RuleList {
  static constexpr std::array<RuleRow, sizeof...(Options)> kRows{Options::kRow...};
  using Variant = std::variant<Options..., OwnRuleOptions>;
};

// Most common first.
using Rules = RuleList<AdamWOptions,      //
                       AdamOptions,       //
                       SgdOptions,        //
                       LionOptions,       //
                       LambOptions,       //
                       AdamW8bitOptions,  //
                       MuonOptions,       //
                       AdafactorOptions>;

inline constexpr auto& kRuleTable = Rules::kRows;
using OptimizerOptions = Rules::Variant;

// `name` is one of the table.
inline const RuleRow& rule_row(std::string_view name) {
  const auto* const found = std::ranges::find(kRuleTable, name, &RuleRow::name);
  ZERO_CHECK(found != kRuleTable.end(), "no row for optimizer {}", name);
  return *found;
}

// "a, b or c": all rules, or those that need this of a parameter. Inline, as the configuration is not linked with this room.
inline std::string rule_names(std::optional<RuleNeeds> needs = {}) {
  return names_where(kRuleTable, [&](const RuleRow& row) { return !needs || row.needs == *needs; });
}

// Throws ConfigError under keys "optimizer.lr", "optimizer.betas" ... for values out of range or not finite, and under
// "optimizer.rule" for a rule that is null, or has more states or other ones than an OwnRuleOptions may.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options);

// Those of the rule of that name. Throws ConfigError under "optimizer.name" where there is none.
OptimizerOptions optimizer_options(std::string_view name, const RuleKeys& keys);
// The defaults of each rule's options, in the order of the table.
std::vector<OptimizerOptions> default_options();

const RuleRow* row_of(const OptimizerOptions& options);     // null: a rule that the user wrote
std::string_view name_of(const OptimizerOptions& options);  // "adamw", "lamb" ..., or the user's rule's
double learning_rate(const OptimizerOptions& options);
double weight_decay(const OptimizerOptions& options);

}  // namespace zero
