#include "app/cli/verbs.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/exit_status.h"

#include "app/cli/bench/bench.h"
#include "app/cli/command/build.h"
#include "app/cli/command/turn_to_speak.h"
#include "app/cli/doctor/doctor.h"
#include "app/cli/inspect/inspect.h"
#include "app/cli/verify/verify.h"
#include "app/config/options/suggest.h"
#include "app/config/options/value.h"

namespace zero::cli {
namespace {

constexpr std::array kVerbs{
    Verb{"train", "train a model: CONFIG.toml, --section.key VALUE, -n RANKS", run_train},
    Verb{"launch", "start the ranks of any program, with torchrun's flags and environment", run_launch},
    Verb{"plan", "print memory, traffic and step time of each rank, without allocating the model", run_plan},
    Verb{"generate", "print text from the weights of a run or a checkpoint", run_generate},
    Verb{"export", "write the weights of a checkpoint as safetensors", run_export},
    Verb{"inspect", "describe a safetensors file, a data file or a run folder", run_inspect},
    Verb{"report", "write one HTML page of one or more runs", run_report},
    Verb{"compare", "print a table of several runs, with the keys that differ", run_compare},
    Verb{"verify", "execute steps of a run again, and compare them with the run's records: an audit", run_verify},
    Verb{"sweep", "train once for each combination of values, and compare the runs", run_sweep},
    Verb{"tokenize", "write a text as tokens, or learn a tokenizer from it", run_tokenize},
    Verb{"bench", "measure a part of zero.cpp against a limit that the same run probes", run_bench},
    Verb{"doctor", "check this machine for zero.cpp", run_doctor},
    Verb{"convert", "convert a DeepSpeed configuration to TOML", run_convert},
    Verb{"completion", "print a completion script for bash, zsh or fish", run_completion},
    Verb{"man", "print the manual page, which lists every key", run_man},
};

constexpr std::array kFlags{std::string_view("--help"), std::string_view("--version")};

void print_help() {
  fmt::print("zero.cpp {}: ZeRO training in C++ on libtorch\n\nUsage: zero VERB [arguments]\n\n", ZERO_VERSION);
  for (const auto& verb : kVerbs) fmt::print("  {:<11}{}\n", verb.name, verb.help);
  fmt::print(
      "\n  zero VERB --help   arguments of a verb\n"
      "  zero --version     version\n"
      "\nExit status: 0 done; 1 `zero doctor` found a problem, or `zero verify` a difference; 2 the command line, the\n"
      "configuration or an input file is wrong; 3 a rank failed or stopped answering;\n"
      "4 a read or write failed, or a GPU did; 128 + n ended by signal n.\n"
      "\nFirst steps:\n"
      "  zero doctor\n"
      "  zero plan examples/shakespeare/shakespeare.toml --world 2\n"
      "  zero train examples/shakespeare/shakespeare.toml -n 2\n");
}

// Waits, so ranks do not all print the same error if their launcher does not merge lines.
void await_turn(const std::exception& error) {
  try {
    std::this_thread::sleep_for(wait_before_words(error, detect_ranks({}, std::getenv)));
  } catch (const ConfigError&) {  // the environment is invalid: the error to print says so
  }
}

int report(std::string_view verb, const std::exception& error, int status) {
  std::fflush(stdout);
  if (verb == "train") await_turn(error);
  fmt::print(stderr, "{}{}{}\n", verb.empty() ? "" : "zero ", verb.empty() ? "" : fmt::format("{}: ", verb),
             error.what());
  return status;
}

const Verb& find_verb(const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& verb : kVerbs) {
    if (verb.name == name) return verb;
    names.push_back(verb.name);
  }
  throw ConfigError("zero " + shown(name), "", "unknown verb",
                    did_you_mean(name, names) + "`zero --help` lists the verbs");
}

int dispatch(Arguments arguments) {
  const bool help = !arguments.empty() && arguments[0] == "help";
  if (help && arguments.size() == 2) {
    const std::string flag = "--help";
    return find_verb(arguments[1]).run({&flag, 1});
  }
  if (arguments.empty() || help || arguments[0] == "--help" || arguments[0] == "-h") {
    print_help();
    return 0;
  }
  if (arguments[0] == "--version") {
    fmt::print("zero.cpp {}\n", ZERO_VERSION);
    return 0;
  }
  if (arguments[0].starts_with("-")) {
    throw ConfigError("zero " + shown(arguments[0]), "", "unknown flag",
                      did_you_mean(arguments[0], kFlags) + "`zero --help` lists verbs and flags");
  }
  return find_verb(arguments[0]).run(arguments.subspan(1));
}

}  // namespace

std::span<const Verb> verbs() {
  return kVerbs;
}

int run_command(Arguments arguments) {
  const std::string verb = arguments.empty() || arguments[0].starts_with("-") ? "" : shown(arguments[0]);
  // If the word is not a verb, the message already contains it.
  bool known = false;
  for (const auto& entry : kVerbs) known = known || entry.name == verb;
  const std::string_view name = known ? std::string_view(verb) : "";
  try {
    require_same_core();
    return dispatch(arguments);
  } catch (const ConfigError& error) {
    return report(name, error, kBadInputStatus);
  } catch (const CommError& error) {
    return report(name, error, kRankFailedStatus);
  } catch (const IoError& error) {
    return report(name, error, kIoFailedStatus);
  } catch (const DeviceError& error) {
    return report(name, error, kIoFailedStatus);
  } catch (const std::bad_alloc& error) {
    return report(name, std::runtime_error("out of memory; `zero plan` says how much a rank needs"), kRankFailedStatus);
  } catch (const std::exception& error) {
    return report(name, error, kRankFailedStatus);
  }
}

}  // namespace zero::cli
