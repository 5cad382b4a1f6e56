// wrapped(): breaks a line at spaces to fit a terminal of 80 columns, and indents the rest.
//
//   text += wrapped("  memory     a rank needs at least 23.4 MiB: states 12.1 MiB, transients ...", /*indent=*/13);
//
// A number stays with its unit. `line` has no line break; the result ends with one. A word that is wider than a line
// stays whole, and spaces at the beginning of `line` stay. Local.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zero {

constexpr std::size_t kColumns = 80;

std::string wrapped(std::string_view line, std::size_t indent);

}  // namespace zero
