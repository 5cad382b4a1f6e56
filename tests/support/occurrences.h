// occurrences(): how often a text has a part. Also the number of its lines.
#pragma once

#include <string_view>

namespace zero {

// Occurrences do not overlap.
inline int occurrences(std::string_view part, std::string_view text) {
  int count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

inline int count_lines(std::string_view text) {
  return occurrences("\n", text);
}

}  // namespace zero
