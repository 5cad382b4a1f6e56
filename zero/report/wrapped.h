// Lines that fit a terminal of 80 columns: text is broken at spaces, and what follows is indented. A number stays with
// its unit.
//
//   text += wrapped("  memory     a rank needs at least 23.4 MiB: states 12.1 MiB, transients ...", /*indent=*/13);
//
// `line` is one line without its line break; the result ends with one. A word that is wider than a line stays whole,
// and spaces at the beginning of `line` stay. Local.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zero {

constexpr std::size_t kColumns = 80;

std::string wrapped(std::string_view line, std::size_t indent);

}  // namespace zero
