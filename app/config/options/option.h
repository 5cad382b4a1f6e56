// Option: a row of the option table, which has one row for each key.
//
//   const Option* option = find_option("train.batch");
//   set_option(config, *option, setting);      // checks type and range
//   get_option(config, *option)                // the value as TOML
//
// File, environment, command line, --help and the resolved config.toml use this table. The flag of "train.batch" is
// --train.batch, its variable ZERO_TRAIN_BATCH. The defaults are those of `Config{}`: the initialisers of the members
// that the rows name. For every row, set_option() of the value from get_option() does not change the configuration.
//
// Local. Throws ConfigError with file, line, key and value.
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "app/config/options/config.h"
#include "app/config/options/value.h"

namespace zero {

// The limits of a whole number or a float. An infinite limit means no limit; a value must be finite.
struct Range {
  double lowest = -std::numeric_limits<double>::infinity();
  double highest = std::numeric_limits<double>::infinity();
  bool above_lowest = false;   // `lowest` itself is not allowed
  bool below_highest = false;  // `highest` itself is not allowed
};

// The interval between two events: a number of steps, or a time. If both are 0, the event never happens.
struct Interval {
  std::int64_t steps = 0;
  std::chrono::milliseconds time{0};
};

// The loss scale: a fixed number, or 0 for a dynamic scale.
struct LossScaleChoice {
  double fixed = 0;
};

// The shares: equal, measured or named.
struct ShareChoice {
  bool measured = false;
  std::vector<std::int64_t> samples;  // the named shares; empty: equal or measured shares
};

// Shard weights.
struct WeightsChoice {
  std::vector<std::int64_t> named;  // empty: measured
};

// The size of a shard group, or "auto".
struct GroupChoice {
  std::int64_t ranks = 0;
  bool automatic = true;
};

// What a pipeline's cut balances, or where it is.
struct CutChoice {
  bool measured = false;
  std::vector<std::string> units;  // first unit of each section after the first; empty: balanced
};

// Names of columns or of classes.
struct Names {
  std::vector<std::string> names;
};

// Returns the member of a Config that belongs to a row.
template <typename T>
using OptionAccess = T& (*)(Config&);
// A member that is read and written as a T, for example a number of another type.
template <typename T>
struct Converted {
  void (*set)(Config& config, const T& value);
  T (*get)(const Config& config);
};
// A member whose value has a word in files and messages: an enum, or a name from a table.
struct WordAccess {
  std::span<const std::string_view> words;
  void (*set)(Config& config, std::string_view word);  // `word`: one of `words`
  std::string_view (*get)(const Config& config);
};
using Field =
    std::variant<OptionAccess<bool>, OptionAccess<std::int64_t>, OptionAccess<double>, OptionAccess<std::string>,
                 OptionAccess<std::vector<std::int64_t>>, OptionAccess<std::array<double, 2>>,
                 OptionAccess<std::chrono::milliseconds>, OptionAccess<Validation>, Converted<Interval>,
                 OptionAccess<MemoryBudget>, OptionAccess<std::vector<std::string>>, OptionAccess<TierFractions>,
                 OptionAccess<std::vector<GroupKeys>>, Converted<std::int64_t>, Converted<LossScaleChoice>,
                 Converted<ShareChoice>, Converted<WeightsChoice>, OptionAccess<DataFiles>, Converted<GroupChoice>,
                 Converted<CutChoice>, Converted<MemoryBudget>, OptionAccess<std::optional<bool>>,
                 OptionAccess<std::vector<double>>, OptionAccess<ImageSize>, Converted<Names>,
                 OptionAccess<std::filesystem::path>, WordAccess>;

struct Option {
  std::string_view name;  // "section.key"
  Field field;
  Range range;            // limits of a number, and of each number in an array
  std::string_view help;  // one line

  std::string_view section() const { return name.substr(0, name.find('.')); }
  std::string_view key() const { return name.substr(name.find('.') + 1); }
  // Returns the words of a WordAccess; empty: the value is no word.
  std::span<const std::string_view> choices() const {
    const auto* access = std::get_if<WordAccess>(&field);
    return access == nullptr ? std::span<const std::string_view>{} : access->words;
  }
};

// Returns all rows by section, in the order of help and of config.toml.
std::span<const Option> options();
std::span<const std::string_view> sections();
const Option* find_option(std::string_view name);

std::string environment_name(const Option& option);  // "ZERO_TRAIN_BATCH"
std::string allowed(const Option& option);           // "an integer, 1 or more", "one of: text, tokens, mnist, csv"

// Returns whether the option is a budget for which "min" is allowed.
bool takes_min(const Option& option);

// Checks a value and sets it. Throws ConfigError "ORIGIN: NAME = VALUE: ALLOWED VALUES".
void set_option(Config& config, const Option& option, const Setting& setting);
Value get_option(const Config& config, const Option& option);
// Returns the word of a key whose row has a WordAccess: word_of(config, "schedule.name") is "cosine".
std::string_view word_of(const Config& config, std::string_view name);

// Returns the beginning of a ConfigError about a key: "config.toml:12: train.batch", or only the name if it has its
// default.
std::string located(std::string_view origin, std::string_view name);

// Throws ConfigError that suggests a similar key or section. `name` must not be in the table.
[[noreturn]] void throw_unknown(std::string_view origin, std::string_view name, std::string_view value);

}  // namespace zero
