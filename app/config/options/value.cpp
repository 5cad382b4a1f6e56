#include "app/config/options/value.h"

#include <cmath>

#include <fmt/format.h>

namespace zero {
namespace {

template <typename... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overload(Cases...) -> Overload<Cases...>;

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Returns the shortest digits that read back as the same double, in a form that TOML reads as a float.
std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string key_text(std::string_view key) {
  const bool bare =
      !key.empty() && key.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") ==
                          std::string_view::npos;
  return bare ? std::string(key) : toml_string(key);
}

}  // namespace

std::string to_toml(const Value& value) {
  return std::visit(Overload{
                        [](bool flag) -> std::string { return flag ? "true" : "false"; },
                        [](std::int64_t number) -> std::string { return std::to_string(number); },
                        [](double number) -> std::string { return float_text(number); },
                        [](const std::string& text) -> std::string { return toml_string(text); },
                        [](const Value::Array& items) -> std::string {
                          std::string out;
                          for (const auto& item : items) out += (out.empty() ? "" : ", ") + to_toml(item);
                          return "[" + out + "]";
                        },
                        [](const Value::Table& entries) -> std::string {
                          std::string out;
                          for (const auto& [key, item] : entries)
                            out += (out.empty() ? "" : ", ") + key_text(key) + " = " + to_toml(item);
                          return "{" + out + "}";
                        },
                        [](const Unsupported& other) -> std::string { return "(" + other.kind + ")"; },
                    },
                    value.data);
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  std::string out(text.substr(0, kLongest));
  // The text must not be cut within a UTF-8 sequence.
  while (text.size() > kLongest && !out.empty() && (static_cast<unsigned char>(text[out.size()]) & 0xc0u) == 0x80u)
    out.pop_back();
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text.size() > kLongest ? out + "..." : out;
}

std::string kind_of(const Value& value) {
  return std::visit(Overload{
                        [](bool) -> std::string { return "true or false"; },
                        [](std::int64_t) -> std::string { return "an integer"; },
                        [](double) -> std::string { return "a float"; },
                        [](const std::string&) -> std::string { return "a string"; },
                        [](const Value::Array&) -> std::string { return "an array"; },
                        [](const Value::Table&) -> std::string { return "a table"; },
                        [](const Unsupported& other) { return other.kind; },
                    },
                    value.data);
}

}  // namespace zero
