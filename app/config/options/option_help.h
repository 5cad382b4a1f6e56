// help_of(), options_overview(), options_reference(): the option table as help text.
//
//   help_of(option)           "momentum. For sgd; for muon: 0.95 if not given"
//   options_overview()        a paragraph for each section, with keys and defaults: fits into a --help of 40 lines
//   options_reference("zero") a TOML section with comments: key, default, allowed values, meaning
#pragma once

#include <string>
#include <string_view>

namespace zero {

struct Option;

// Returns the option's help. If not all rules read a key of [optimizer], or not all models take a key of [model], the
// rules or models follow. Rules are listed with their notes (RuleRow::keys).
std::string help_of(const Option& option);

std::string options_overview();

// Returns the reference of a section, of one key ("section.key") or, if `wanted` is empty, of all sections. The text is
// a valid configuration file with every default. Throws ConfigError for a section or key that does not exist.
std::string options_reference(std::string_view wanted);

}  // namespace zero
