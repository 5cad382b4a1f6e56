// one_line(text): replaces every run of spaces and line breaks by one space, so tests find a sentence in wrapped text.
#pragma once

#include <sstream>
#include <string>

namespace zero {

inline std::string one_line(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

}  // namespace zero
