// Rules: the list of update rules. A new line in it adds a rule; the options' kRow, from() and make_rule() do the rest.
//
//   auto rule = make_update_rule(AdamWOptions{.beta2 = 0.95});
//   optimizer_options("lion", {.lr = 1e-4})          // LionOptions
//   rule_row("lamb").needs                           // RuleNeeds::kSums
//   rule_names(RuleNeeds::kElements)                 // "adamw, adam, sgd, lion or adamw8bit"
//
// The list generates the variant of options, the table of rows, the configuration's names, keys and help texts, and the
// lists of benchmarks and tests. Local. No torch.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zero/base/error/check.h"
#include "zero/base/text/name_lists.h"
#include "zero/optim/elementwise/adam_rule.h"
#include "zero/optim/elementwise/adamw8bit_rule.h"
#include "zero/optim/elementwise/lion_rule.h"
#include "zero/optim/elementwise/sgd_rule.h"
#include "zero/optim/rule/own_rule.h"
#include "zero/optim/rule/rule_row.h"
#include "zero/optim/rule/update_rule.h"
#include "zero/optim/whole/adafactor_rule.h"
#include "zero/optim/whole/lamb_rule.h"
#include "zero/optim/whole/muon_rule.h"

namespace zero {

template <typename... Options>
struct RuleList {
  static constexpr std::array<RuleRow, sizeof...(Options)> kRows{Options::kRow...};
  using Variant = std::variant<Options..., OwnRuleOptions>;
};

// Most common rules first.
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

// Returns the row of a rule. `name` must be in the table.
inline const RuleRow& rule_row(std::string_view name) {
  const auto* const found = std::ranges::find(kRuleTable, name, &RuleRow::name);
  ZERO_CHECK(found != kRuleTable.end(), "no row for optimizer {}", name);
  return *found;
}

// Lists the names of all rules, or of those with these needs: "a, b or c". Inline, because the configuration does not
// link with this folder.
inline std::string rule_names(std::optional<RuleNeeds> needs = {}) {
  return names_where(kRuleTable, [&](const RuleRow& row) { return !needs || row.needs == *needs; });
}

// Makes a rule. Throws ConfigError under "optimizer.lr", "optimizer.betas" ... for values out of range or not finite.
// Throws it under "optimizer.rule" for a user's rule that make_rule(OwnRuleOptions) refuses.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options);

// Makes the options of the rule with this name. Throws ConfigError under "optimizer.name" if there is none.
OptimizerOptions optimizer_options(std::string_view name, const RuleKeys& keys);
// Returns the default options of each rule, in the order of the table.
std::vector<OptimizerOptions> default_options();

const RuleRow* row_of(const OptimizerOptions& options);     // null: a rule that the user wrote
std::string_view name_of(const OptimizerOptions& options);  // "adamw", "lamb" ..., or the name of the user's rule
double learning_rate(const OptimizerOptions& options);
double weight_decay(const OptimizerOptions& options);

}  // namespace zero
