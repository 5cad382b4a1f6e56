// help_of(), options_overview(), options_reference(): the option table as help text.
//
//   help_of(option)           "momentum. Of sgd; of muon: 0.95 if not given"
//   options_overview()        one paragraph a section, each key with its default: fits into a --help of 40 lines
//   options_reference("zero") a commented TOML section: key, default, allowed values, what it means
#pragma once

#include <string>
#include <string_view>

namespace zero {

struct Option;

// The option's help; of a key of [optimizer] then the rules that read it, unless all do, and their notes (RuleRow::keys); of a
// key of [model] the models that take it, unless all do.
std::string help_of(const Option& option);

std::string options_overview();

// Of a section, or of one key, "section.key"; empty: of all sections. The text is itself a valid configuration file
// with every default. Throws ConfigError for a section or key that does not exist.
std::string options_reference(std::string_view wanted);

}  // namespace zero
