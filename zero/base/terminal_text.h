// terminal_text(): text from outside as one line that a terminal can show, of a given width.
//
//   terminal_text("to be,\nor not to be", 12)     // "to be, or..."
//   terminal_columns("Ærø")                       // 3
//
// Control characters, among them line breaks and what a terminal would take for a command, become spaces. Characters are
// those of UTF-8, each a column wide, near enough. Local.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zero {

std::size_t terminal_columns(std::string_view text);

// What is wider than `columns`, 3 or more, ends with "...".
std::string terminal_text(std::string_view text, std::size_t columns);

}  // namespace zero
