#include "app/cli/verbs.h"

// `zero completion bash|zsh|fish`: prints a script that completes verbs, flags, keys and their values. Verbs and keys
// are from their tables. The script gets the flags of a verb from the verb's --help when it needs them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/command/flags.h"
#include "app/config/options/option.h"
#include "app/config/options/option_help.h"

namespace zero::cli {
namespace {

// Returns the text in single quotes, for any of the three shells.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("\xe2\x80\x99") : std::string(1, c);
  return out + "'";
}

// Returns the values of an option, if they are few.
std::string values_of(const Option& option) {
  if (std::holds_alternative<OptionAccess<bool>>(option.field)) return "true false";
  if (std::holds_alternative<OptionAccess<std::optional<bool>>>(option.field)) return "auto true false";
  if (option.name == "zero.stage") return "0 1 2 3";
  return fmt::format("{}", fmt::join(option.choices(), " "));
}

std::string verb_names() {
  std::vector<std::string_view> names;
  for (const Verb& verb : verbs()) names.push_back(verb.name);
  return fmt::format("{}", fmt::join(names, " "));
}

constexpr std::string_view kFlagsOfVerb =
    R"(zero "$1" --help 2>/dev/null | grep -oE -- '(^| |,)--?[a-z][a-z-]*' | tr -d ' ,' | sort -u)";

// Returns a `case` branch for each key with few values.
std::string value_cases(std::string_view complete) {
  std::string out;
  for (const Option& option : options()) {
    const std::string values = values_of(option);
    if (!values.empty())
      out += fmt::format("    --{}) {}; return ;;\n", option.name, fmt::format(fmt::runtime(complete), values));
  }
  return out;
}

std::string bash() {
  std::string keys;
  for (const Option& option : options()) keys += fmt::format("--{} ", option.name);
  return fmt::format(R"bash(# Completion of zero for bash: source <(zero completion bash)
_zero_flags() {{ {0}; }}
_zero() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{1} --help --version" -- "$word"))
    return
  fi
  case $before in
{2}  esac
  case $verb in
    help) words="{1}" ;;
    completion) words="bash zsh fish" ;;
  esac
  if [[ $word == -* ]]; then
    words=$(_zero_flags "$verb")
    case $verb in train | plan) words="$words {3}" ;; esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _zero zero
)bash",
                     kFlagsOfVerb, verb_names(), value_cases("COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))"), keys);
}

std::string zsh() {
  std::string described, keys;
  for (const Verb& verb : verbs())
    described += fmt::format("    {}\n", in_quotes(fmt::format("{}:{}", verb.name, verb.help)));
  for (const Option& option : options())
    keys += fmt::format("      {}\n", in_quotes(fmt::format("--{}:{}", option.name, help_of(option))));
  return fmt::format(R"zsh(#compdef zero
# Completion of zero for zsh: source <(zero completion zsh)
_zero_flags() {{ {0}; }}
_zero() {{
  local -a described keys
  described=(
{1}  )
  if (( CURRENT == 2 )); then
    _describe verb described
    return
  fi
  case ${{words[CURRENT-1]}} in
{2}  esac
  case ${{words[2]}} in
    help) _describe verb described; return ;;
    completion) compadd bash zsh fish; return ;;
  esac
  if [[ ${{words[CURRENT]}} != -* ]]; then
    _files
    return
  fi
  compadd -- ${{(f)"$(_zero_flags ${{words[2]}})"}}
  case ${{words[2]}} in train|plan)
    keys=(
{3}    )
    _describe key keys ;;
  esac
}}
compdef _zero zero
)zsh",
                     kFlagsOfVerb, described, value_cases("compadd {}"), keys);
}

std::string fish() {
  std::string out =
      "# Completion of zero for fish: zero completion fish | source\n"
      "function __zero_flags\n"
      "  set -l words (commandline -opc)\n"
      "  zero $words[2] --help 2>/dev/null | string match -ra -- '(?<=^| |,)--?[a-z][a-z-]*' | sort -u\n"
      "end\n"
      "complete -c zero -n 'not __fish_use_subcommand' -a '(__zero_flags)'\n"
      "complete -c zero -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
  for (const Verb& verb : verbs())
    out += fmt::format("complete -c zero -n __fish_use_subcommand -f -a {} -d {}\n", verb.name, in_quotes(verb.help));
  for (const Option& option : options()) {
    const std::string values = values_of(option);
    out += fmt::format("complete -c zero -n '__fish_seen_subcommand_from train plan' -l {} {} -d {}\n", option.name,
                       values.empty() ? "-r" : fmt::format("-x -a '{}'", values), in_quotes(help_of(option)));
  }
  return out;
}

}  // namespace

int run_completion(Arguments arguments) {
  CLI::App app(
      "Prints a script that completes verbs, flags, keys and values in a shell.\n"
      "  bash: source <(zero completion bash)    zsh: source <(zero completion zsh)    fish: zero completion fish | "
      "source",
      "zero completion");
  std::string shell;
  app.add_option("SHELL", shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  if (!parse_flags(app, arguments)) return 0;
  fmt::print("{}", shell == "bash" ? bash() : shell == "zsh" ? zsh() : fish());
  return 0;
}

}  // namespace zero::cli
