// A configuration in which some keys are changed, and the line on which a key stands.
//
//   const std::string toml = changed("[data]\npath = \"a.txt\"\n", {"data.path = \"b.txt\"", "zero.stage = 1"});
//   line_of(toml, "zero.stage")      // 4
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace zero {

// From 1; 0 where it does not stand there. `added`: gets the line behind the head of its section; 0 where there is none.
inline int line_of(const std::string& toml, const std::string& key, int* added = nullptr) {
  const std::string section = key.substr(0, key.find('.')), name = key.substr(section.size() + 1);
  std::istringstream lines(toml);
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with("[")) inside = line == "[" + section + "]";
    if (inside && line.starts_with("[") && added != nullptr) *added = number + 1;
    if (inside && line.starts_with(name + " = ")) return number;
  }
  return 0;
}

// `keys`: each a line of TOML under its full name. One that stands there is replaced; others begin their section.
inline std::string changed(std::string toml, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const std::string full = key.substr(0, key.find(" = ")), section = full.substr(0, full.find('.'));
    const std::string line = key.substr(section.size() + 1) + "\n";
    int added = 0;
    const int old = line_of(toml, full, &added);
    if (old == 0 && added == 0) {
      toml += "[" + section + "]\n" + line;
      continue;
    }
    std::size_t at = 0;
    for (int number = 1; number < (old > 0 ? old : added); ++number) at = toml.find('\n', at) + 1;
    toml.replace(at, old > 0 ? toml.find('\n', at) + 1 - at : 0, line);
  }
  return toml;
}

}  // namespace zero
