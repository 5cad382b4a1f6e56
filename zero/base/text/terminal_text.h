// terminal_text(): turns text from outside into one line of a given width that is safe on a terminal.
//
//   terminal_text("to be,\nor not to be", 12)     // "to be, or..."
//   terminal_columns("Ærø")                       // 3
//
// Control characters, such as line breaks and terminal commands, become spaces (also those of two bytes, U+0080 to
// U+009F). Each UTF-8 character counts as one
// column, which is nearly right. Local.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zero {

std::size_t terminal_columns(std::string_view text);

// Cuts text that is wider than `columns` (at least 3), and ends it with "...".
std::string terminal_text(std::string_view text, std::size_t columns);
// Cuts nothing.
std::string terminal_text(std::string_view text);

}  // namespace zero
