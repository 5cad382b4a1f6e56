// Value: a value of TOML. Setting: one value for one key, with the place that it came from.
//
//   parse_value("[0.9, 0.95]")   an array of two floats
//   parse_value("adamw")         the string "adamw": a bare word needs no quotes on a command line
//   to_toml(Value{0.001})        "0.001"
//
// Invariant: parse_value(to_toml(v)) == v for every v without Unsupported.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace zero {

// A kind of TOML that no option takes; `kind` says which, for the error message: "a date".
struct Unsupported {
  std::string kind;
  bool operator==(const Unsupported&) const = default;
};

struct Value {
  using Array = std::vector<Value>;
  using Table = std::vector<std::pair<std::string, Value>>;  // {disk = 0.4, host = 0.6}: in the order of the alphabet
  using Data = std::variant<bool, std::int64_t, double, std::string, Array, Table, Unsupported>;

  Value() = default;
  Value(Data data) : data(std::move(data)) {}

  Data data;
  bool operator==(const Value&) const = default;
};

struct Setting {
  std::string name;  // "train.batch"
  Value value;
  std::string text;    // as written, for messages; also the value of string options given as bare words
  std::string origin;  // "config.toml:12", "command line", "ZERO_TRAIN_BATCH"
  bool bare = false;   // from a command line or the environment, where strings need no quotes
};

// Local. Text that is not TOML is a string. Throws ConfigError (key "command line") for text that is not UTF-8.
Value parse_value(std::string_view text);
std::string to_toml(const Value& value);
// Text from outside, made fit for a message: one line, printable, cut when long.
std::string shown(std::string_view text);
// "an integer", "an array" ...: for messages.
std::string kind_of(const Value& value);

}  // namespace zero
