#include "app/report/screen/wrapped.h"

#include <algorithm>

namespace zero {
namespace {

// Returns where to break a line that is too long: at the last space in reach that does not separate a number from its
// unit. npos: nowhere.
std::size_t break_of(const std::string& line, std::size_t first_word) {
  for (std::size_t space = line.rfind(' ', kColumns); space != std::string::npos && space > first_word;
       space = line.rfind(' ', space - 1)) {
    const bool after_number = line[space - 1] >= '0' && line[space - 1] <= '9';
    if (!after_number) return space;
  }
  return line.find(' ', std::max(kColumns, first_word));
}

}  // namespace

std::string wrapped(std::string_view line, std::size_t indent) {
  std::string text;
  std::string rest(line);
  while (rest.size() > kColumns) {
    const std::size_t space = break_of(rest, std::min(rest.find_first_not_of(' '), rest.size()));
    if (space == std::string::npos) break;
    const std::size_t end = rest.find_last_not_of(' ', space), next = rest.find_first_not_of(' ', space);
    text.append(rest, 0, end + 1).append("\n");
    if (next == std::string::npos) return text;
    rest = std::string(indent, ' ') + rest.substr(next);
  }
  return text + rest + "\n";
}

}  // namespace zero
