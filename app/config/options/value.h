// Value: a value of TOML. Setting: a value for a key, with its origin.
//
//   parse_value("[0.9, 0.95]")   an array of two floats
//   parse_value("adamw")         the string "adamw": a bare word needs no quotes on a command line
//   to_toml(Value{0.001})        "0.001"
//
// For every v without Unsupported, parse_value(to_toml(v)) == v. Local.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace zero {

// A value of TOML that no option takes. `kind` is its kind for the error message: "a date".
struct Unsupported {
  std::string kind;
  bool operator==(const Unsupported&) const = default;
};

struct Value {
  using Array = std::vector<Value>;
  using Table = std::vector<std::pair<std::string, Value>>;  // {disk = 0.4, host = 0.6}: in alphabetical order
  using Data = std::variant<bool, std::int64_t, double, std::string, Array, Table, Unsupported>;

  Value() = default;
  Value(Data data) : data(std::move(data)) {}

  Data data;
  bool operator==(const Value&) const = default;
};

struct Setting {
  std::string name;  // "train.batch"
  Value value;
  std::string text;    // the text that the user wrote, for messages; also the value of a bare word for a string option
  std::string origin;  // "config.toml:12", "command line", "ZERO_TRAIN_BATCH"
  bool bare = false;   // is it from the command line or the environment? There strings need no quotes
};

// Reads a value. Text that is not TOML is a string. Throws ConfigError (key "command line") for text that is not UTF-8.
Value parse_value(std::string_view text);
std::string to_toml(const Value& value);
// Returns text from outside in a form for messages: one line, printable, shortened if it is long.
std::string shown(std::string_view text);
// Returns the kind of a value for messages: "an integer", "an array".
std::string kind_of(const Value& value);

}  // namespace zero
