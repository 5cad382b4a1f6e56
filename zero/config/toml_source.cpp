#include "zero/config/toml_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "zero/base/error.h"

// Some of the library's assertions are about its input: "[^x]" breaks one. Compiled out, as NDEBUG would, they are
// undefined behaviour; here they stay, and are an error like any other.
namespace zero {
struct BrokenAssertion {};
}  // namespace zero
#undef NDEBUG
#define TOML_ASSERT(expression) ((expression) ? static_cast<void>(0) : throw ::zero::BrokenAssertion())
#include <toml++/toml.h>

namespace zero {
namespace {

constexpr std::string_view kSyntaxRemedy = "write KEY = VALUE, one a line, under [section]; strings in double quotes";

Value to_value(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return Value(flag->get());
  if (const auto* number = node.as_integer()) return Value(number->get());
  if (const auto* number = node.as_floating_point()) return Value(number->get());
  if (const auto* text = node.as_string()) return Value(text->get());
  if (const auto* array = node.as_array()) {
    Value::Array items;
    for (const auto& item : *array) items.push_back(to_value(item));
    return Value(std::move(items));
  }
  return Value(Unsupported{node.is_table() ? "a table" : "a date or time"});
}

void flatten(const toml::table& table, const std::string& prefix, std::string_view file, std::vector<Setting>& out) {
  for (const auto& [key, node] : table) {
    std::string name = prefix + std::string(key.str());
    // An empty table stays as a setting of its own, so that a misspelt section without keys is not lost.
    if (const auto* inner = node.as_table(); inner != nullptr && !inner->empty()) {
      flatten(*inner, name + ".", file, out);
      continue;
    }
    Value value = to_value(node);
    std::string text = to_toml(value);
    out.push_back(
        {std::move(name), std::move(value), std::move(text), fmt::format("{}:{}", file, key.source().begin.line)});
  }
}

bool breaks(std::string_view text) {
  try {
    static_cast<void>(toml::parse(text));
  } catch (const BrokenAssertion&) {
    return true;
  } catch (const toml::parse_error&) {
    // What is cut off may be missing; only the assertion counts.
  }
  return false;
}

// The line at which the parser gave up without saying where: the fewest lines that make it give up.
std::size_t broken_line(std::string_view text) {
  std::vector<std::size_t> ends;  // of the lines
  for (std::size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) ends.push_back(at + 1);
  const auto first =
      std::partition_point(ends.begin(), ends.end(), [&](std::size_t end) { return !breaks(text.substr(0, end)); });
  return static_cast<std::size_t>(first - ends.begin()) + 1;
}

}  // namespace

Value parse_value(std::string_view text) {
  // One line only: "1\nstage = 2" must not smuggle in a second key.
  if (text.find_first_of("\r\n") == std::string_view::npos) {
    try {
      const toml::table table = toml::parse(fmt::format("value = {}", text));
      return to_value(*table.get("value"));
    } catch (const toml::parse_error&) {
      // Not TOML: a bare word.
    } catch (const BrokenAssertion&) {
      // Neither.
    }
  }
  try {
    const Value word(std::string{text});
    const toml::table table = toml::parse("value = " + to_toml(word));
    return to_value(*table.get("value"));
  } catch (const toml::parse_error& error) {
    throw ConfigError("command line", "", fmt::format("a value that is not text: {}", error.description()),
                      "values are UTF-8 text or TOML");
  }
}

std::vector<Setting> parse_toml(std::string_view text, std::string_view file) {
  try {
    const toml::table table = toml::parse(text);
    std::vector<Setting> settings;
    flatten(table, "", file, settings);
    return settings;
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw ConfigError(fmt::format("{}:{}:{}", file, at.line, at.column), "",
                      fmt::format("not TOML: {}", error.description()), kSyntaxRemedy);
  } catch (const BrokenAssertion&) {
    throw ConfigError(fmt::format("{}:{}", file, broken_line(text)), "", "not TOML: a character that begins no key",
                      kSyntaxRemedy);
  }
}

std::vector<Setting> read_toml(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw ConfigError(path.string(), "", "a folder, where a configuration file is expected",
                      fmt::format("name a file, for example {}", (path / "config.toml").string()));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw ConfigError(path.string(), "", std::strerror(errno),
                      "name an existing configuration file; `zero train --help` shows what goes into one");
  }
  std::string text(kMaxConfigBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxConfigBytes) {
    throw ConfigError(path.string(), "", "more than 1 MiB: this is not a configuration file",
                      "the configuration comes first; data is named inside it, under [data] path");
  }
  return parse_toml(text, path.string());
}

}  // namespace zero
