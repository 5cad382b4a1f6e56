// The option table: one row a key. File, environment, command line, --help and the resolved config.toml derive from it.
//
//   const Option* option = find_option("train.batch");
//   set_option(config, *option, setting);      // checks type and range, throws ConfigError with file, line, key, value
//   get_option(config, *option)                // the value, as TOML would write it
//
// Invariant: set_option(get_option(c)) leaves c as it is, for every row. Defaults are what `Config{}` holds, so they
// are written once, in config.h. The command-line flag of "train.batch" is --train.batch, its variable
// ZERO_TRAIN_BATCH.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "app/config/config.h"
#include "app/config/value.h"

namespace zero {

// A number's limits. Whole numbers and floats; infinities mean "no limit" but a value itself must be finite.
struct Range {
  double lowest = -std::numeric_limits<double>::infinity();
  double highest = std::numeric_limits<double>::infinity();
  bool above_lowest = false;   // `lowest` itself is not allowed
  bool below_highest = false;  // `highest` itself is not allowed
};

// The member of a Config that a row stands for.
template <typename T>
using OptionAccess = T& (*)(Config&);
using Field =
    std::variant<OptionAccess<bool>, OptionAccess<std::int64_t>, OptionAccess<double>, OptionAccess<std::string>,
                 OptionAccess<std::vector<std::int64_t>>, OptionAccess<std::array<double, 2>>,
                 OptionAccess<std::chrono::milliseconds>, OptionAccess<Validation>, OptionAccess<Interval>,
                 OptionAccess<MemoryBudget>, OptionAccess<std::vector<std::string>>, OptionAccess<TierFractions>,
                 OptionAccess<std::vector<GroupConfig>>, OptionAccess<LossScaleChoice>, OptionAccess<ShareChoice>,
                 OptionAccess<WeightsChoice>, OptionAccess<DataFiles>, OptionAccess<GroupChoice>,
                 OptionAccess<std::optional<bool>>, OptionAccess<std::vector<double>>, OptionAccess<ImageSize>,
                 OptionAccess<Names>>;

struct Option {
  std::string_view name;  // "section.key"
  Field field;
  Range range;                                // of numbers, and of each number in an array
  std::span<const std::string_view> choices;  // of strings: the only ones allowed; empty: any
  std::string_view help;                      // one line

  std::string_view section() const { return name.substr(0, name.find('.')); }
  std::string_view key() const { return name.substr(name.find('.') + 1); }
};

// All rows, sections together, in the order of help and of config.toml.
std::span<const Option> options();
std::span<const std::string_view> sections();
const Option* find_option(std::string_view name);

std::string environment_name(const Option& option);  // "ZERO_TRAIN_BATCH"
std::string allowed(const Option& option);           // "an integer, 1 or more", "one of: text, tokens, mnist, csv"

// Throws ConfigError "ORIGIN: NAME = VALUE: what is allowed".
void set_option(Config& config, const Option& option, const Setting& setting);
Value get_option(const Config& config, const Option& option);

// What a ConfigError about a key begins with: "config.toml:12: train.batch", or the bare name when it has its default.
std::string located(std::string_view origin, std::string_view name);

// Throws ConfigError with the near key or section. `name` is not in the table.
[[noreturn]] void throw_unknown(std::string_view origin, std::string_view name, std::string_view value);

}  // namespace zero
