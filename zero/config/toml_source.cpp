#include "zero/config/toml_source.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "zero/base/error.h"

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

}  // namespace

Value parse_value(std::string_view text) {
  // One line only: "1\nstage = 2" must not smuggle in a second key.
  if (text.find_first_of("\r\n") == std::string_view::npos) {
    try {
      const toml::table table = toml::parse(fmt::format("value = {}", text));
      return to_value(*table.get("value"));
    } catch (const toml::parse_error&) {
      // Not TOML: a bare word.
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
