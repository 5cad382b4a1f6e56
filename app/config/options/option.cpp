#include "app/config/options/option.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/optim/rule_registry.h"

#include "app/config/options/suggest.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestTimeout = std::chrono::hours(24 * 7);

bool in_range(const Range& range, double number) {
  return std::isfinite(number) && (range.above_lowest ? number > range.lowest : number >= range.lowest) &&
         (range.below_highest ? number < range.highest : number <= range.highest);
}

// Returns the allowed values of a group's rule, which decides whether its parameters are updated as matrices.
std::vector<std::string_view> rules_of_groups() {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const RuleRow& row : kRuleTable) {
    if (row.needs != RuleNeeds::kMatrices) continue;
    add(row.name);
    add(row.others);
  }
  return names;
}

bool is_whole_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

template <typename... Each>
struct Cases : Each... {
  using Each::operator()...;
};
template <typename... Each>
Cases(Each...) -> Cases<Each...>;

// Converts a value to the type of a member; there is one overload for each type.
class Assignment {
 public:
  Assignment(const Option& option, const Setting& setting) : option_(option), setting_(setting) {}

  void operator()(bool& member) const {
    const auto* flag = std::get_if<bool>(&setting_.value.data);
    if (flag == nullptr) refuse_kind(setting_.value);
    member = *flag;
  }
  void operator()(std::int64_t& member) const { member = integer(setting_.value); }
  void operator()(double& member) const { member = number(setting_.value); }

  void operator()(std::string& member) const { member = word(); }
  void operator()(std::filesystem::path& member) const { member = word(); }

  std::string one_of(std::span<const std::string_view> words) const {
    std::string text = word();
    if (std::ranges::find(words, text) == words.end()) refuse("not an allowed value", did_you_mean(text, words));
    return text;
  }

  void operator()(std::vector<std::int64_t>& member) const {
    std::vector<std::int64_t> numbers;
    for (const auto& item : array()) numbers.push_back(integer(item));
    if (numbers.size() < 2)
      refuse(fmt::format("{} instead of two or more", format_count(std::ssize(numbers), "number")));
    member = std::move(numbers);
  }

  void operator()(std::array<double, 2>& member) const {
    const auto& items = array();
    if (items.size() != 2) refuse(fmt::format("{} instead of two", format_count(std::ssize(items), "number")));
    member = {number(items[0]), number(items[1])};
  }

  // One number needs no brackets.
  void operator()(std::vector<double>& member) const {
    std::vector<double> numbers;
    if (const auto* items = std::get_if<Value::Array>(&setting_.value.data)) {
      for (const auto& item : *items) numbers.push_back(number(item));
    } else {
      numbers.push_back(number(setting_.value));
    }
    member = std::move(numbers);
  }

  void operator()(ImageSize& member) const {
    if (!std::holds_alternative<Value::Array>(setting_.value.data)) {
      const std::int64_t side = integer(setting_.value);
      member = {.height = side, .width = side};
      return;
    }
    const auto& items = array();
    if (items.size() != 2) refuse(fmt::format("{} instead of two", format_count(std::ssize(items), "number")));
    const ImageSize size{.height = integer(items[0]), .width = integer(items[1])};
    if ((size.height == 0) != (size.width == 0)) refuse("only one side is given");
    member = size;
  }

  void operator()(milliseconds& member) const {
    const milliseconds duration = parse_duration(word(), where());
    if (duration < milliseconds(1) || duration > kLongestTimeout) refuse("out of range");
    member = duration;
  }

  void operator()(Interval& member) const {
    if (std::holds_alternative<std::int64_t>(setting_.value.data)) {
      member = {.steps = integer(setting_.value)};
      return;
    }
    if (std::holds_alternative<double>(setting_.value.data)) refuse_no_integer(setting_.value);
    const milliseconds duration = parse_duration(word(), where());
    if (duration < milliseconds(1) || duration > kLongestTimeout) refuse("out of range");
    member = {.time = duration};
  }

  void operator()(Validation& member) const {
    const bool is_path = std::holds_alternative<std::string>(setting_.value.data);
    if (is_path || std::holds_alternative<Value::Array>(setting_.value.data)) {
      DataFiles files;
      (*this)(files);
      if (files.empty()) refuse("an empty path");
      member = std::move(files);
    } else {
      member = number(setting_.value);
    }
  }

  void operator()(DataFiles& member) const {
    if (const auto* path = std::get_if<std::string>(&setting_.value.data); path != nullptr && path->empty()) {
      member = {};
    } else {
      (*this)(member.paths);
    }
  }

  void operator()(std::vector<std::string>& member) const {
    std::vector<std::string> paths;
    const auto* items = std::get_if<Value::Array>(&setting_.value.data);
    if (items == nullptr) {
      paths.push_back(word());  // one path needs no brackets
    } else {
      for (const auto& item : *items) {
        const auto* text = std::get_if<std::string>(&item.data);
        if (text == nullptr) refuse_kind(item);
        paths.push_back(*text);
      }
    }
    if (std::ranges::find(paths, "") != paths.end()) refuse("an empty path");
    member = std::move(paths);
  }

  // A column's name may be a number.
  void operator()(Names& member) const {
    Names names;
    const auto* items = std::get_if<Value::Array>(&setting_.value.data);
    if (items == nullptr) {
      names.names.push_back(word());  // one name needs no brackets
    } else {
      for (const auto& item : *items) {
        const auto* text = std::get_if<std::string>(&item.data);
        if (text == nullptr && !std::holds_alternative<std::int64_t>(item.data)) refuse_kind(item);
        names.names.push_back(text != nullptr ? *text : fmt::format("{}", std::get<std::int64_t>(item.data)));
      }
    }
    for (auto name = names.names.begin(); name != names.names.end(); ++name) {
      if (name->empty()) refuse("an empty name");
      if (std::find(name + 1, names.names.end(), *name) != names.names.end())
        refuse(fmt::format("{} is given twice", shown(*name)));
    }
    member = std::move(names);
  }

  void operator()(TierFractions& member) const {
    const auto* entries = std::get_if<Value::Table>(&setting_.value.data);
    if (entries == nullptr) refuse_kind(setting_.value);
    TierFractions fractions;
    double device = -1;
    for (const auto& [tier, fraction] : *entries) {
      const TierFacts* const known = find_tier(tier);
      if (known == nullptr) {
        std::array<std::string_view, kNumTiers> names;
        std::ranges::transform(kTierTable, names.begin(), &TierFacts::name);
        refuse(fmt::format("{} is not a tier", shown(tier)), did_you_mean(tier, names));
      }
      (known->tier == Tier::kDevice ? device : fractions[known->tier]) = number(fraction);
    }
    constexpr double kSlack = 1e-6;
    double sum = 0;
    for (const Tier tier : kLowerTiers) sum += fractions[tier];
    sum += std::max(device, 0.0);
    if (sum > 1 + kSlack || (device >= 0 && sum < 1 - kSlack))
      refuse(fmt::format("they sum to {:g}, {}", sum, sum > 1 ? "which is more than 1" : "not 1"));
    member = fractions;
  }

  void operator()(std::vector<GroupKeys>& member) const {
    std::vector<GroupKeys> groups;
    for (const Value& item : array()) {
      const auto* entries = std::get_if<Value::Table>(&item.data);
      if (entries == nullptr) refuse_kind(item);
      GroupKeys group;
      for (const auto& [key, value] : *entries) set_group_key(group, key, value);
      if (group.parameters.empty()) refuse("a group without parameters");
      groups.push_back(std::move(group));
    }
    member = std::move(groups);
  }

  void operator()(LossScaleChoice& member) const {
    if (std::holds_alternative<std::string>(setting_.value.data)) {
      if (word() != "dynamic") refuse("no such scale");
      member = {};
    } else {
      member = {.fixed = number(setting_.value)};
    }
  }

  void operator()(ShareChoice& member) const {
    if (std::holds_alternative<std::string>(setting_.value.data)) {
      const std::string text = word();
      if (text != "equal" && text != "auto") refuse("no such share");
      member = {.measured = text == "auto", .samples = {}};
      return;
    }
    ShareChoice named;
    (*this)(named.samples);
    member = std::move(named);
  }

  void operator()(WeightsChoice& member) const {
    WeightsChoice weights;
    if (!std::holds_alternative<std::string>(setting_.value.data)) {
      (*this)(weights.named);
    } else if (word() != "auto") {
      refuse("no such weights");
    }
    member = std::move(weights);
  }

  void operator()(CutChoice& member) const {
    Names units;
    (*this)(units);
    const bool is_word = std::holds_alternative<std::string>(setting_.value.data);
    const bool measured = is_word && units.names.front() == "measured";
    if (measured || (is_word && units.names.front() == "work")) units.names.clear();
    member = {.measured = measured, .units = std::move(units.names)};
  }

  void operator()(GroupChoice& member) const {
    if (!std::holds_alternative<std::string>(setting_.value.data)) {
      member = {.ranks = integer(setting_.value), .automatic = false};
    } else if (word() == "auto") {
      member = {};
    } else {
      refuse("no such group");
    }
  }

  void operator()(std::optional<bool>& member) const {
    if (const auto* flag = std::get_if<bool>(&setting_.value.data)) {
      member = *flag;
    } else if (std::holds_alternative<std::string>(setting_.value.data) && word() == "auto") {
      member.reset();
    } else {
      refuse_kind(setting_.value);
    }
  }

  void operator()(MemoryBudget& member) const {
    const MemoryBudget budget = MemoryBudget::parse(word(), where());
    if (budget.kind == MemoryBudget::Kind::kMin && !takes_min(option_)) refuse("this budget has no least");
    if (budget == MemoryBudget{.kind = MemoryBudget::Kind::kBytes}) refuse("no memory at all");
    member = budget;
  }

 private:
  std::string where() const { return located(setting_.origin, option_.name); }

  [[noreturn]] void refuse(std::string_view reason, std::string_view hint = "") const {
    throw ConfigError(where(), shown(setting_.text), reason, fmt::format("{}allowed: {}", hint, allowed(option_)));
  }
  [[noreturn]] void refuse_kind(const Value& value) const {
    refuse(fmt::format("{} does not fit here", kind_of(value)));
  }

  void set_group_key(GroupKeys& group, const std::string& key, const Value& value) const {
    constexpr std::array kKeys{std::string_view("parameters"), std::string_view("lr_scale"),
                               std::string_view("weight_decay"), std::string_view("rule")};
    if (key == "parameters") {
      const auto* pattern = std::get_if<std::string>(&value.data);
      if (pattern == nullptr) refuse_kind(value);
      group.parameters = *pattern;
    } else if (key == "lr_scale") {
      group.lr_scale = number(value);
    } else if (key == "weight_decay") {
      group.weight_decay = number(value);
    } else if (key == "rule") {
      const auto* rule = std::get_if<std::string>(&value.data);
      if (rule == nullptr) refuse_kind(value);
      const std::vector<std::string_view> rules = rules_of_groups();
      if (std::ranges::find(rules, *rule) == rules.end())
        refuse(fmt::format("{} is not a rule for a group: use {}", shown(*rule), fmt::join(rules, " or ")),
               did_you_mean(*rule, rules));
      group.rule = *rule;
    } else {
      refuse(fmt::format("{} is not a key of a group", shown(key)), did_you_mean(key, kKeys));
    }
  }

  std::int64_t integer(const Value& value) const {
    const auto* number = std::get_if<std::int64_t>(&value.data);
    if (number == nullptr) refuse_no_integer(value);
    const auto rounded = static_cast<double>(*number);  // within every range doubles are exact
    if (!in_range(option_.range, rounded) || static_cast<std::int64_t>(rounded) != *number) refuse("out of range");
    return *number;
  }

  // In TOML, 1e3, 2.5 and 1e30 are floats. A word that has only digits is an integer that is too large for TOML.
  [[noreturn]] void refuse_no_integer(const Value& value) const {
    const auto* real = std::get_if<double>(&value.data);
    const auto* text = std::get_if<std::string>(&value.data);
    if (text != nullptr && setting_.bare && is_whole_number(*text)) refuse("out of range");
    if (real == nullptr) refuse_kind(value);
    if (!std::isfinite(*real)) refuse("not a finite number");
    if (!in_range(option_.range, *real)) refuse("out of range");
    if (*real != std::floor(*real)) refuse("not a whole number");
    refuse("a float instead of an integer", fmt::format("write {:.0f}; ", *real));
  }

  double number(const Value& value) const {
    double result = 0;
    if (const auto* whole = std::get_if<std::int64_t>(&value.data)) {
      result = static_cast<double>(*whole);
    } else if (const auto* real = std::get_if<double>(&value.data)) {
      result = *real;
    } else {
      refuse_kind(value);
    }
    if (!std::isfinite(result)) refuse("not a finite number");
    if (!in_range(option_.range, result)) refuse("out of range");
    return result;
  }

  // On a command line `--run.dir 2024` means the string, though TOML reads a number.
  std::string word() const {
    if (const auto* text = std::get_if<std::string>(&setting_.value.data)) return *text;
    if (!setting_.bare) refuse_kind(setting_.value);
    return setting_.text;
  }

  const Value::Array& array() const {
    const auto* items = std::get_if<Value::Array>(&setting_.value.data);
    if (items == nullptr) refuse(fmt::format("{} instead of a list", kind_of(setting_.value)));
    return *items;
  }

  const Option& option_;
  const Setting& setting_;
};

// These texts are exact: parse_bytes and parse_duration read the same value from them.
std::string bytes_text(std::int64_t bytes) {
  return fmt::format("{}B", bytes);
}
std::string duration_text(milliseconds duration) {
  return duration.count() % 1000 == 0 ? fmt::format("{}s", duration.count() / 1000)
                                      : fmt::format("{}ms", duration.count());
}

struct Reading {
  Value operator()(bool member) const { return Value(member); }
  Value operator()(std::int64_t member) const { return Value(member); }
  Value operator()(double member) const { return Value(member); }
  Value operator()(const std::string& member) const { return Value(member); }
  Value operator()(const std::filesystem::path& member) const { return Value(member.string()); }
  Value operator()(const std::vector<std::int64_t>& member) const {
    Value::Array items;
    for (const auto number : member) items.emplace_back(number);
    return Value(std::move(items));
  }
  Value operator()(const std::array<double, 2>& member) const {
    return Value(Value::Array{Value(member[0]), Value(member[1])});
  }
  Value operator()(const std::vector<double>& member) const {
    Value::Array items;
    for (const double number : member) items.emplace_back(number);
    return Value(std::move(items));
  }
  Value operator()(const ImageSize& member) const {
    if (member.height == member.width) return Value(member.height);
    return Value(Value::Array{Value(member.height), Value(member.width)});
  }
  Value operator()(milliseconds member) const { return Value(duration_text(member)); }
  Value operator()(const Interval& member) const {
    return member.time.count() > 0 ? Value(duration_text(member.time)) : Value(member.steps);
  }
  Value operator()(const Validation& member) const {
    const auto* files = std::get_if<DataFiles>(&member);
    return files == nullptr ? Value(std::get<double>(member)) : (*this)(*files);
  }
  // A single file is written without brackets, as in the files of earlier versions.
  Value operator()(const DataFiles& member) const {
    return member.paths.size() > 1 ? (*this)(member.paths) : Value(member.text());
  }
  Value operator()(const std::vector<std::string>& member) const {
    Value::Array items;
    for (const auto& text : member) items.emplace_back(text);
    return Value(std::move(items));
  }
  Value operator()(const Names& member) const { return (*this)(member.names); }
  Value operator()(const TierFractions& member) const {
    Value::Table entries;
    for (auto tier = kLowerTiers.rbegin(); tier != kLowerTiers.rend(); ++tier)
      if (member[*tier] > 0) entries.emplace_back(std::string(name_of(*tier)), Value(member[*tier]));
    return Value(std::move(entries));
  }
  Value operator()(const std::vector<GroupKeys>& member) const {
    Value::Array groups;
    for (const GroupKeys& group : member) {
      Value::Table entries{{"lr_scale", Value(group.lr_scale)}, {"parameters", Value(group.parameters)}};
      if (!group.rule.empty()) entries.emplace_back("rule", Value(group.rule));
      if (group.weight_decay) entries.emplace_back("weight_decay", Value(*group.weight_decay));
      groups.emplace_back(std::move(entries));
    }
    return Value(std::move(groups));
  }
  Value operator()(const LossScaleChoice& member) const {
    return member.fixed > 0 ? Value(member.fixed) : Value("dynamic");
  }
  Value operator()(const ShareChoice& member) const {
    return member.samples.empty() ? Value(member.measured ? "auto" : "equal") : (*this)(member.samples);
  }
  Value operator()(const WeightsChoice& member) const {
    return member.named.empty() ? Value("auto") : (*this)(member.named);
  }
  Value operator()(const CutChoice& member) const {
    return member.units.empty() ? Value(member.measured ? "measured" : "work") : (*this)(member.units);
  }
  Value operator()(const GroupChoice& member) const { return member.automatic ? Value("auto") : Value(member.ranks); }
  Value operator()(std::optional<bool> member) const { return member ? Value(*member) : Value("auto"); }
  Value operator()(const MemoryBudget& member) const {
    switch (member.kind) {
      case MemoryBudget::Kind::kAuto:
        return Value("auto");
      case MemoryBudget::Kind::kMin:
        return Value("min");
      case MemoryBudget::Kind::kBytes:
        break;
    }
    return Value(bytes_text(member.bytes));
  }
};

}  // namespace

std::string environment_name(const Option& option) {
  std::string name = fmt::format("ZERO_{}", option.name);
  for (char& c : name) c = c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string located(std::string_view origin, std::string_view name) {
  return origin.empty() ? std::string(name) : fmt::format("{}: {}", origin, name);
}

void set_option(Config& config, const Option& option, const Setting& setting) {
  const Assignment assign(option, setting);
  std::visit(Cases{[&]<typename T>(OptionAccess<T> access) { assign(access(config)); },
                   [&]<typename T>(const Converted<T>& access) {
                     T value = access.get(config);
                     assign(value);
                     access.set(config, value);
                   },
                   [&](const WordAccess& access) { access.set(config, assign.one_of(access.words)); }},
             option.field);
}

Value get_option(const Config& config, const Option& option) {
  return std::visit(Cases{[&]<typename T>(OptionAccess<T> access) {
                            // One accessor serves reading and writing, and takes a mutable Config. This only reads.
                            return Reading{}(std::as_const(access(const_cast<Config&>(config))));  // NOLINT
                          },
                          [&]<typename T>(const Converted<T>& access) { return Reading{}(access.get(config)); },
                          [&](const WordAccess& access) { return Value(std::string(access.get(config))); }},
                    option.field);
}

std::string_view word_of(const Config& config, std::string_view name) {
  return std::get<WordAccess>(find_option(name)->field).get(config);
}

}  // namespace zero
