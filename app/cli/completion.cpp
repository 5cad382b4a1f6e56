#include "app/cli/verbs.h"

// `zero completion bash|zsh|fish`: prints a script that completes verbs, parts of `zero bench`, flags, keys and their
// values. Verbs, parts and keys are from their tables. The script gets the flags of a verb from the lines of options in
// the verb's --help when it needs them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/bench/bench.h"
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

std::string names_of(std::span<const Verb> verbs) {
  std::vector<std::string_view> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  return fmt::format("{}", fmt::join(names, " "));
}

// Prints the flags of `zero WORDS`, one a line. "  -n, --world 1   number of ranks" is a line of an option.
constexpr std::string_view kFlagsOfVerb =
    R"(zero "$@" --help 2>/dev/null |
  sed -nE 's/^  (--?[a-zA-Z][a-zA-Z0-9-]*(, --?[a-zA-Z][a-zA-Z0-9-]*)*).*/\1/p' | tr -s ', ' '\n' | sort -u)";

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
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} part= words=
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
    bench) if [ "$COMP_CWORD" -eq 2 ]; then words="{4}"; else part=${{COMP_WORDS[2]}}; fi ;;
  esac
  if [[ $word == -* ]]; then
    words=$(_zero_flags "$verb" $part)
    case "$verb $part" in "train " | "plan " | "sweep " | "verify " | "bench step") words="$words {3}" ;; esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _zero zero
)bash",
                     kFlagsOfVerb, names_of(verbs()), value_cases("COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))"),
                     keys, names_of(bench_parts()));
}

// Returns lines of zsh with a name and its help each.
std::string described(std::span<const Verb> verbs) {
  std::string out;
  for (const Verb& verb : verbs) out += fmt::format("    {}\n", in_quotes(fmt::format("{}:{}", verb.name, verb.help)));
  return out;
}

// If zsh loads the script as the function _zero (site-functions/_zero), the script is the body of its first call.
std::string zsh() {
  std::string keys;
  for (const Option& option : options())
    keys += fmt::format("      {}\n", in_quotes(fmt::format("--{}:{}", option.name, help_of(option))));
  return fmt::format(R"zsh(#compdef zero
# Completion of zero for zsh: source <(zero completion zsh)
_zero_flags() {{ {0}; }}
_zero() {{
  local -a described parts part keys
  described=(
{1}  )
  parts=(
{4}  )
  if (( CURRENT == 2 )); then
    _describe verb described
    return
  fi
  case ${{words[CURRENT-1]}} in
{2}  esac
  case ${{words[2]}} in
    help) _describe verb described; return ;;
    completion) compadd bash zsh fish; return ;;
    bench) (( CURRENT > 3 )) && part=(${{words[3]}}) ;;
  esac
  if [[ ${{words[2]}} == bench && CURRENT -eq 3 && ${{words[CURRENT]}} != -* ]]; then
    _describe part parts
    return
  fi
  if [[ ${{words[CURRENT]}} != -* ]]; then
    _files
    return
  fi
  compadd -- ${{(f)"$(_zero_flags ${{words[2]}} $part)"}}
  case "${{words[2]}} $part" in "train "|"plan "|"sweep "|"verify "|"bench step")
    keys=(
{3}    )
    _describe key keys ;;
  esac
}}
if [[ ${{funcstack[1]}} == _zero ]]; then _zero "$@"; else compdef _zero zero; fi
)zsh",
                     kFlagsOfVerb, described(verbs()), value_cases("compadd {}"), keys, described(bench_parts()));
}

std::string fish() {
  std::string out =
      "# Completion of zero for fish: zero completion fish | source\n"
      "function __zero_flags\n"
      "  set -l words (commandline -opc)\n"
      "  set -l asked $words[2]\n"
      "  test \"$asked\" = bench; and set asked bench $words[3]\n"
      "  zero $asked --help 2>/dev/null |\n"
      "    string match -r -- '^  --?[a-zA-Z][a-zA-Z0-9-]*(?:, --?[a-zA-Z][a-zA-Z0-9-]*)*' |\n"
      "    string trim | string split -- ', ' | sort -u\n"
      "end\n"
      "complete -c zero -n 'not __fish_use_subcommand' -a '(__zero_flags)'\n"
      "complete -c zero -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
  for (const Verb& verb : verbs())
    out += fmt::format("complete -c zero -n __fish_use_subcommand -f -a {} -d {}\n", verb.name, in_quotes(verb.help));
  for (const Verb& part : bench_parts())
    out += fmt::format(
        "complete -c zero -n '__fish_seen_subcommand_from bench; and not __fish_seen_subcommand_from {}' -f -a {} -d "
        "{}\n",
        names_of(bench_parts()), part.name, in_quotes(part.help));
  for (const Option& option : options()) {
    const std::string values = values_of(option);
    out +=
        fmt::format("complete -c zero -n '__fish_seen_subcommand_from train plan sweep verify step' -l {} {} -d {}\n",
                    option.name, values.empty() ? "-r" : fmt::format("-x -a '{}'", values), in_quotes(help_of(option)));
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
