#include "zero/config/option_help.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/config/option.h"
#include "zero/config/suggest.h"

namespace zero {
namespace {

constexpr std::size_t kWidth = 118;
constexpr std::size_t kIndent = 13;

}  // namespace

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

std::string options_reference(std::string_view section) {
  if (!section.empty() && std::find(sections().begin(), sections().end(), section) == sections().end()) {
    throw ConfigError("section", shown(section), "unknown section",
                      did_you_mean(section, sections()) + "see `zero train --help` for all");
  }
  const Config defaults;
  std::string out;
  for (const auto name : sections()) {
    if (!section.empty() && section != name) continue;
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", name);
    for (const auto& option : options()) {
      if (option.section() != name) continue;
      out += fmt::format("# {}\n#   allowed: {}; environment: {}\n{} = {}\n", option.help, allowed(option),
                         environment_name(option), option.key(), to_toml(get_option(defaults, option)));
    }
  }
  return out;
}

}  // namespace zero
