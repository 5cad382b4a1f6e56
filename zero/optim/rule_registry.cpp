#include "zero/optim/rule_registry.h"

#include "zero/base/error/error.h"

namespace zero {
namespace {

// The variant's last alternative is a rule that the user wrote, which has no row.
static_assert(std::variant_size_v<OptimizerOptions> == kRuleTable.size() + 1);
static_assert(std::is_same_v<std::variant_alternative_t<kRuleTable.size(), OptimizerOptions>, OwnRuleOptions>);

template <typename... Options>
std::vector<OptimizerOptions> options_from(const RuleKeys& keys, std::string_view name, RuleList<Options...>) {
  std::vector<OptimizerOptions> found;
  ((Options::kRow.name == name ? found.push_back(Options::from(keys)) : void()), ...);
  return found;
}

template <typename... Options>
std::vector<OptimizerOptions> defaults_of(RuleList<Options...>) {
  return {Options{}...};
}

}  // namespace

std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options) {
  return std::visit([](const auto& chosen) { return make_rule(chosen); }, options);
}

OptimizerOptions optimizer_options(std::string_view name, const RuleKeys& keys) {
  const std::vector<OptimizerOptions> found = options_from(keys, name, Rules{});
  if (found.empty()) throw ConfigError("optimizer.name", std::string(name), "no such optimizer", "use " + rule_names());
  return found.front();
}

std::vector<OptimizerOptions> default_options() {
  return defaults_of(Rules{});
}

const RuleRow* row_of(const OptimizerOptions& options) {
  return options.index() < kRuleTable.size() ? &kRuleTable[options.index()] : nullptr;
}

std::string_view name_of(const OptimizerOptions& options) {
  if (const RuleRow* const row = row_of(options)) return row->name;
  const OwnRuleOptions& own = std::get<OwnRuleOptions>(options);
  return own.rule ? own.rule->name() : "";
}

double learning_rate(const OptimizerOptions& options) {
  return std::visit([](const auto& chosen) { return chosen.lr; }, options);
}

double weight_decay(const OptimizerOptions& options) {
  return std::visit([](const auto& chosen) { return chosen.weight_decay; }, options);
}

}  // namespace zero
