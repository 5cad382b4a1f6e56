// json_lines(): the objects of a text with one object a line, such as metrics.jsonl. Throws if a line is not an object.
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
