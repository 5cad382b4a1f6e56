#include "app/cli/verbs.h"

// `zero man`: prints the manual page in roff, from the tables of verbs and options.
#include <fmt/format.h>

#include "app/cli/command/flags.h"
#include "app/config/options/option.h"
#include "app/config/options/option_help.h"

namespace zero::cli {
namespace {

// Escapes the characters that have a meaning in roff: a backslash, a hyphen, and a dot or quote at the beginning of a
// line.
std::string roff(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string verbs_as_roff() {
  std::string out;
  for (const Verb& verb : verbs()) out += fmt::format(".TP\n.B zero {}\n{}\n", verb.name, roff(verb.help));
  return out;
}

std::string keys_as_roff() {
  const Config defaults;
  std::string out;
  for (const auto section : sections()) {
    out += fmt::format(".SS [{}]\n", section);
    for (const Option& option : options()) {
      if (option.section() != section) continue;
      out += fmt::format(".TP\n.B \\-\\-{}\n{}.\nAllowed: {}. Default: {}. Variable: {}.\n", roff(option.name),
                         roff(help_of(option)), roff(allowed(option)), roff(to_toml(get_option(defaults, option))),
                         environment_name(option));
    }
  }
  return out;
}

}  // namespace

int run_man(Arguments arguments) {
  CLI::App app("Prints the manual page, which has every key: zero man | man -l -", "zero man");
  if (!parse_flags(app, arguments)) return 0;
  fmt::print(R"(.TH ZERO 1 "" "zero.cpp {}" "zero.cpp"
.SH NAME
zero \- ZeRO training in C++ on libtorch
.SH SYNOPSIS
.B zero
.I VERB
[\fIarguments\fR]
.SH DESCRIPTION
Trains models whose states are split over ranks, and placed on device, host and disk.
The placement of the states changes no bit of the result.
.SH VERBS
.B zero
.I VERB
.B \-\-help
lists the flags of a verb.
{}.SH KEYS
Keys of the configuration file, by section. Each is also a flag of
.B zero train
and
.BR "zero plan" ,
and an environment variable.
The command line wins over the environment, the environment over the file, the file over the default.
{}.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
.B zero doctor
found a problem that prevents a run, or
.B zero verify
found a difference.
.TP
.B 2
The command line, the configuration or an input file is wrong.
.TP
.B 3
A rank failed, stopped answering, or differed from other ranks.
.TP
.B 4
Reading or writing failed, or a GPU did.
.TP
.B 128 + n
Ended by signal n.
.SH EXAMPLES
.nf
zero plan config.toml \-\-world 2
zero train config.toml \-n 2 \-\-zero.stage 2
zero export runs/mine \-o exported
.fi
)",
             ZERO_VERSION, verbs_as_roff(), keys_as_roff());
  return 0;
}

}  // namespace zero::cli
