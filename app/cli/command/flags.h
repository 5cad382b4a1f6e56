// parse_flags(): parses a verb's flags with CLI11, and reports errors as zero.cpp does.
//
//   CLI::App app("what a verb does", "zero inspect");
//   app.add_option("file", path, "...")->required();
//   if (!parse_flags(app, arguments)) return 0;      // --help was printed
//
// Local. Throws ConfigError for an unknown flag (with the nearest flag), for a bad value, and for an argument too many.
#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "app/cli/command/verb.h"

namespace zero::cli {

// Returns false if it printed the help. `more`: flags that the caller has already parsed, for "did you mean".
bool parse_flags(CLI::App& app, Arguments arguments, std::span<const std::string> more = {});

}  // namespace zero::cli
