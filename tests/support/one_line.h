// one_line(text): every run of spaces and line breaks as one space, so that a sentence is found however it is wrapped.
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
