#include "app/config/options/option_help.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/text/name_lists.h"
#include "zero/optim/rule_registry.h"

#include "app/config/options/option.h"
#include "app/config/options/suggest.h"
#include "app/train/tasks/model_table.h"

namespace zero {
namespace {

constexpr std::size_t kWidth = 118;
constexpr std::size_t kIndent = 13;

// Returns a rule's note about a key and the rule's own default; empty: the rule has neither.
std::string remark_of(const RuleKey& key) {
  if (key.usual.empty()) return std::string(key.note);
  return fmt::format("{}{}{} if not given", key.note, key.note.empty() ? "" : ", ", key.usual);
}

// Returns the rules that read a key, by their remarks. Rules without a remark are first.
std::vector<std::pair<std::string, std::vector<std::string_view>>> readers_of(std::string_view name) {
  std::vector<std::pair<std::string, std::vector<std::string_view>>> readers;
  for (const RuleRow& row : kRuleTable) {
    const RuleKey* const key = row.find(name);
    if (key == nullptr) continue;
    const std::string remark = remark_of(*key);
    auto found = std::ranges::find(readers, remark, [](const auto& reader) { return reader.first; });
    if (found == readers.end()) found = readers.insert(remark.empty() ? readers.begin() : readers.end(), {remark, {}});
    found->second.push_back(row.name);
  }
  return readers;
}

// Returns the models that take a key; empty: all models take it.
std::vector<std::string_view> takers_of(std::string_view name) {
  std::vector<std::string_view> takers;
  for (const ModelRow& row : kModelTable)
    if (row.takes(name)) takers.push_back(row.name);
  if (takers.size() == kModelTable.size()) takers.clear();
  return takers;
}

}  // namespace

std::string help_of(const Option& option) {
  std::string text(option.help);
  for (bool first = true; const auto& [remark, rules] : readers_of(option.name)) {
    text += fmt::format("{} {}{}{}", first ? ". For" : "; for", all_of(rules), remark.empty() ? "" : ": ", remark);
    first = false;
  }
  const std::vector<std::string_view> takers = takers_of(option.name);
  return takers.empty() ? text : text + ". For " + all_of(takers);
}

std::string options_overview() {
  const Config defaults;
  std::string out;
  for (const auto section : sections()) {
    std::string line = fmt::format("{:<{}}", fmt::format("  [{}]", section), kIndent);
    for (const auto& option : options()) {
      if (option.section() != section) continue;
      const std::string item = fmt::format(" {} = {}", option.key(), to_toml(get_option(defaults, option)));
      if (line.size() + item.size() > kWidth) {
        out += line + "\n";
        line = std::string(kIndent, ' ');
      }
      line += item + " ";
    }
    out += line + "\n";
  }
  return out;
}

std::string options_reference(std::string_view wanted) {
  const bool is_key = find_option(wanted) != nullptr;
  const bool is_section = std::ranges::find(sections(), wanted) != sections().end();
  if (!wanted.empty() && !is_key && !is_section) {
    std::vector<std::string_view> names(sections().begin(), sections().end());
    for (const auto& option : options()) names.push_back(option.name);
    throw ConfigError("--keys", shown(wanted), "no such section or key",
                      fmt::format("{}sections: {}", did_you_mean(wanted, names), fmt::join(sections(), " ")));
  }
  const Config defaults;
  std::string out;
  for (const auto name : sections()) {
    std::string keys;
    for (const auto& option : options()) {
      if (option.section() != name || (!wanted.empty() && wanted != name && wanted != option.name)) continue;
      keys += fmt::format("# {}\n#   allowed: {}; environment: {}\n{} = {}\n", help_of(option), allowed(option),
                          environment_name(option), option.key(), to_toml(get_option(defaults, option)));
    }
    if (!keys.empty()) out += fmt::format("{}[{}]\n{}", out.empty() ? "" : "\n", name, keys);
  }
  return out;
}

}  // namespace zero
