#include "app/config/command_line.h"

#include <fmt/format.h>

#include "zero/base/error/error.h"

#include "app/config/options/option.h"

namespace zero {
namespace {

bool is_override(std::string_view argument) {
  return argument.starts_with("--") && argument.substr(0, argument.find('=')).find('.') != std::string_view::npos;
}

}  // namespace

CommandLine split_command_line(std::span<const std::string> arguments) {
  constexpr std::string_view kOrigin = "command line";
  CommandLine out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!is_override(argument)) {
      out.rest.push_back(argument);
      continue;
    }
    const auto equals = argument.find('=');
    std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::string text;
    if (equals != std::string::npos) {
      text = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      text = arguments[++i];
    } else {
      const Option* option = find_option(name);
      if (option == nullptr) throw_unknown(kOrigin, name, "");
      throw ConfigError(located(kOrigin, name), "", "a value is missing", fmt::format("allowed: {}", allowed(*option)));
    }
    Value value = parse_value(text);
    out.overrides.push_back({std::move(name), std::move(value), std::move(text), std::string(kOrigin), /*bare=*/true});
  }
  return out;
}

}  // namespace zero
