#include "app/report/same_configuration.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

constexpr std::size_t kMostOnOneLine = 4;
constexpr std::string_view kNone = "(none)";  // the value of a missing key

using Keys = ConfigurationKeys;

std::string value_of(const Keys& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? std::string(kNone) : found->second;
}

// `format` writes a key and its two values.
template <typename Format>
std::string differences(std::string_view one, std::string_view other, Format format,
                        std::span<const std::string_view> but = {}) {
  const Keys ours = keys_of_configuration(one), theirs = keys_of_configuration(other);
  Keys both = ours;
  both.insert(theirs.begin(), theirs.end());
  std::vector<std::string> texts;
  for (const auto& [key, ignored] : both) {
    if (std::ranges::find(but, key) != but.end()) continue;
    const std::string our_value = value_of(ours, key), their_value = value_of(theirs, key);
    if (our_value != their_value) texts.push_back(format(key, our_value, their_value));
  }
  if (texts.empty()) return "";
  return texts.size() > kMostOnOneLine ? fmt::format("\n    {}", fmt::join(texts, "\n    "))
                                       : fmt::format(" {}", fmt::join(texts, "; "));
}

}  // namespace

ConfigurationKeys keys_of_configuration(std::string_view toml) {
  ConfigurationKeys keys;
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

std::string differing_keys(std::string_view theirs, std::string_view expected) {
  return differences(theirs, expected, [](const auto& key, const auto& value, const auto& other) {
    return fmt::format("{} = {}, not {}", key, value, other);
  });
}

std::string changed_keys(std::string_view before, std::string_view now, std::span<const std::string_view> but) {
  const auto format = [](const auto& key, const auto& old_value, const auto& new_value) {
    return fmt::format("{} = {} -> {}", key, old_value, new_value);
  };
  return differences(before, now, format, but);
}

std::string changed_model(std::string_view before, std::string_view now, std::span<const std::string_view> own_keys) {
  const Keys theirs = keys_of_configuration(before), ours = keys_of_configuration(now);
  std::vector<std::string> texts;
  const auto compare = [&](const std::string& key) {
    const std::string old_value = value_of(theirs, key), new_value = value_of(ours, key);
    const bool known = old_value != kNone && new_value != kNone;
    const bool of_data = key == "model.vocab" && (old_value == "0" || new_value == "0");
    if (known && !of_data && old_value != new_value)
      texts.push_back(fmt::format("{} = {}, not {}", key, old_value, new_value));
  };
  compare("model.name");
  if (texts.empty())
    for (const std::string_view key : own_keys) compare(std::string(key));
  return texts.empty() ? "" : fmt::format(" {}", fmt::join(texts, "; "));
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
      fmt::format("differs from rank 0's{}{}", keys.empty() ? "" : ":", keys),
      "start every rank with the same file, flags and ZERO_ variables; `config.toml` of a run is complete");
}

}  // namespace zero
