// The option table as help.
//
//   options_overview()        one paragraph a section, each key with its default: fits into a --help of 40 lines
//   options_reference("zero") a commented TOML section: key, default, allowed values, what it means
#pragma once

#include <string>
#include <string_view>

namespace zero {

std::string options_overview();

// An empty section means all of them. The text is itself a valid configuration file with every default.
// Throws ConfigError for a section that does not exist.
std::string options_reference(std::string_view section);

}  // namespace zero
