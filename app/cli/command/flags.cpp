#include "app/cli/command/flags.h"

#include <memory>

#include <fmt/format.h>

#include "zero/base/error/error.h"

#include "app/config/options/suggest.h"
#include "app/config/options/value.h"

namespace zero::cli {
namespace {

// Prints a flag in one line if it fits. It leaves out torchrun's second spelling (--node_rank) and the PET_ variables,
// which the help explains once.
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
    if (option->get_items_expected_min() == 0) return " [" + option->get_type_name() + "]";
    return (option->get_default_str().empty() ? " VALUE" : " " + option->get_default_str()) +
           (option->get_required() ? " (needed)" : "");
  }
};

// Suggests the flag for which `word` is a typing error. The last part of a key also counts: --stage for --zero.stage.
std::string near_flag(const std::string& word, std::span<const std::string_view> flags) {
  const std::string_view bare = std::string_view(word).substr(0, word.find('='));
  for (const auto flag : flags) {
    const auto dot = flag.find('.');
    if (dot != std::string_view::npos && bare.substr(2) == flag.substr(dot + 1))
      return fmt::format("did you mean '{}'? ", flag);
  }
  return did_you_mean(bare, flags);
}

[[noreturn]] void refuse_extra(const CLI::App& app, const std::string& word, std::span<const std::string> more) {
  const std::string see = fmt::format("see `{} --help`", app.get_name());
  if (!word.starts_with("-")) throw ConfigError(shown(word), "", "an argument too many", see);
  std::vector<std::string> flags;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
  }
  std::vector<std::string_view> views(flags.begin(), flags.end());
  views.insert(views.end(), more.begin(), more.end());
  constexpr std::string_view kVersion = "--version";  // a flag of the command, not of a verb
  views.push_back(kVersion);
  if (nearest(word, views) == kVersion)
    throw ConfigError(shown(word), "", "unknown flag", "did you mean `zero --version`? " + see);
  throw ConfigError(shown(word), "", "unknown flag", near_flag(word, views) + see);
}

// Translates CLI11's messages "Could not convert: --world = 1.5" and "--world: 1 required INT missing".
[[noreturn]] void refuse_value(const CLI::App& app, const CLI::ParseError& error) {
  const std::string see = fmt::format("see `{} --help`", app.get_name()), text = error.what();
  constexpr std::string_view kConversion = "Could not convert: ", kEquals = " = ";
  if (const auto equals = text.find(kEquals); text.starts_with(kConversion) && equals != std::string::npos) {
    const std::string flag = text.substr(kConversion.size(), equals - kConversion.size());
    const CLI::Option* const option = app.get_option_no_throw(flag);
    const bool is_float = option != nullptr && option->get_type_name().find("FLOAT") != std::string::npos;
    throw ConfigError(flag, shown(text.substr(equals + kEquals.size())),
                      is_float ? "not a number" : "not a whole number, or out of range", see);
  }
  if (error.get_name() == "ArgumentMismatch" && text.ends_with(" missing"))
    throw ConfigError(text.substr(0, text.find(':')), "", "a value is missing", see);
  throw ConfigError("command line", "", text, see);
}

}  // namespace

bool parse_flags(CLI::App& app, Arguments arguments, std::span<const std::string> more) {
  app.allow_extras();
  app.formatter(std::make_shared<ShortFormatter>());
  app.get_formatter()->column_width(34);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    // An unknown flag is reported before a missing argument.
    if (const auto extra = app.remaining(); !app.get_prefix_command())
      for (const auto& word : extra)
        if (word.starts_with("-") && word != "--") refuse_extra(app, word, more);
    refuse_value(app, error);
  }
  for (const auto& word : app.remaining()) {
    if (!app.get_prefix_command() || (word.starts_with("-") && word != "--")) refuse_extra(app, word, more);
    break;  // after the program of `launch`, all arguments are the program's
  }
  return true;
}

}  // namespace zero::cli
