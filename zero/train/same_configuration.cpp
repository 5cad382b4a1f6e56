#include "zero/train/same_configuration.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

constexpr std::size_t kMostKeys = 4;

// "section.key" -> value, of the TOML that resolved_toml() writes: one key a line.
std::map<std::string, std::string, std::less<>> keys_of(std::string_view toml) {
  std::map<std::string, std::string, std::less<>> keys;
  std::string section;
  while (!toml.empty()) {
    const std::string_view line = toml.substr(0, toml.find('\n'));
    toml.remove_prefix(std::min(toml.size(), line.size() + 1));
    const auto equals = line.find(" = ");
    if (line.starts_with('[') && line.ends_with(']')) {
      section = line.substr(1, line.size() - 2);
    } else if (equals != std::string_view::npos) {
      keys[fmt::format("{}.{}", section, line.substr(0, equals))] = line.substr(equals + 3);
    }
  }
  return keys;
}

}  // namespace

std::string differing_keys(std::string_view theirs, std::string_view expected) {
  const auto keys = keys_of(theirs), others = keys_of(expected);
  std::string text;
  std::size_t found = 0;
  for (const auto& [key, value] : keys) {
    const auto other = others.find(key);
    if (other == others.end() || other->second == value) continue;
    if (++found > kMostKeys) continue;
    text += fmt::format("{}{} = {}, not {}", found > 1 ? "; " : "", key, value, other->second);
  }
  if (found > kMostKeys) text += fmt::format("; and {} more", found - kMostKeys);
  return text;
}

void require_same_configuration(Communicator& comm, std::uint64_t hash, std::string_view text) {
  const auto hashes = all_gather_value(comm, static_cast<std::int64_t>(hash));
  const auto differs = std::find_if(hashes.begin(), hashes.end(), [&](auto other) { return other != hashes.front(); });
  if (differs == hashes.end()) return;
  const auto rank = static_cast<std::size_t>(differs - hashes.begin());
  const std::vector<std::string> texts = all_gather_text(comm, text);
  const std::string keys = differing_keys(texts[rank], texts.front());
  throw ConfigError(
      "configuration", fmt::format("rank {}", rank),
      fmt::format("differs from rank 0's{}{}", keys.empty() ? "" : ": ", keys),
      "start every rank with the same file, flags and ZERO_ variables; `config.toml` of a run is complete");
}

}  // namespace zero
