#include "zero/cli/flags.h"

#include <memory>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/config/suggest.h"
#include "zero/config/value.h"

namespace zero::cli {
namespace {

// One line a flag where it fits: torchrun's second spelling (--node_rank) and the PET_ variables are said once, in
// words.
class ShortFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string positionals;
    for (const auto* option : app->get_options([](const CLI::Option* each) { return each->get_positional(); })) {
      positionals +=
          option->get_required() ? " " + option->get_name(true) : fmt::format(" [{}]", option->get_name(true));
    }
    return fmt::format("Usage: {}{} [flags]{}\n", name.empty() ? app->get_name() : name, positionals,
                       app->get_prefix_command() ? " [--] PROGRAM [arguments]" : "");
  }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) return option->get_name(true);
    std::string out;
    for (const auto& name : option->get_snames()) out += (out.empty() ? "-" : ", -") + name;
    for (const auto& name : option->get_lnames()) {
      if (name.find('_') == std::string::npos) out += (out.empty() ? "--" : ", --") + name;
    }
    return out;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const bool takes_no_value = option->get_items_expected_max() == 0;
    if (takes_no_value || option->get_positional()) return "";
    return option->get_default_str().empty() ? " VALUE" : " " + option->get_default_str();
  }
};

[[noreturn]] void refuse_extra(const CLI::App& app, const std::string& word) {
  const std::string see = fmt::format("see `{} --help`", app.get_name());
  if (!word.starts_with("-")) throw ConfigError(shown(word), "", "an argument too many", see);
  std::vector<std::string> flags;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
  }
  const std::vector<std::string_view> views(flags.begin(), flags.end());
  throw ConfigError(shown(word), "", "unknown flag", did_you_mean(word.substr(0, word.find('=')), views) + see);
}

}  // namespace

bool parse_flags(CLI::App& app, Arguments arguments) {
  app.allow_extras();
  app.formatter(std::make_shared<ShortFormatter>());
  app.get_formatter()->column_width(34);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw ConfigError("command line", "", error.what(), fmt::format("see `{} --help`", app.get_name()));
  }
  for (const auto& word : app.remaining()) {
    if (!app.get_prefix_command() || (word.starts_with("-") && word != "--")) refuse_extra(app, word);
    break;  // behind the program of `launch` everything is the program's
  }
  return true;
}

}  // namespace zero::cli
