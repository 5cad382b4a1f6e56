// parse_flags(): the flags of a verb, through CLI11, with our errors.
//
//   CLI::App app("what a verb does", "zero inspect");
//   app.add_option("file", path, "...")->required();
//   if (!parse_flags(app, arguments)) return 0;      // --help was printed
//
// Throws ConfigError for a flag that does not exist (with the near one), a value that does not fit, an argument too
// many.
#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "zero/command/verb.h"

namespace zero::cli {

// `more`: flags that the caller has taken out already, for "did you mean".
bool parse_flags(CLI::App& app, Arguments arguments, std::span<const std::string> more = {});

}  // namespace zero::cli
