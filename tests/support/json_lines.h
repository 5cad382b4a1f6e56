// The objects of a text with one a line, such as metrics.jsonl. Throws where a line is none.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace zero {

inline std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::istringstream lines(text);
  std::vector<nlohmann::json> found;
  for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line));
  return found;
}

}  // namespace zero
