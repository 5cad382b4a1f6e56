// changed(): a configuration with some changed keys. line_of(): the line of a key.
//
//   const std::string toml = changed("[data]\npath = \"a.txt\"\n", {"data.path = \"b.txt\"", "zero.stage = 1"});
//   line_of(toml, "zero.stage")      // 4
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace zero {

// The line of `key`, from 1, or 0 if it is missing. `added` gets the line after the head of its section, or 0 if there
// is none.
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

// Each of `keys` is a line of TOML with a full name. An existing key is replaced. A new key is inserted first in its
// section.
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
