#include "app/config/resolved.h"

#include <fmt/format.h>

#include "app/config/options/option.h"

namespace zero {

std::string resolved_toml(const Config& config) {
  // So the text is the same for every number of ranks.
  const std::string_view left_out = config.train.leaves > 0 ? "train.accumulate" : "";
  std::string out;
  for (const auto section : sections()) {
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    for (const auto& option : options()) {
      if (option.section() == section && option.name != left_out)
        out += fmt::format("{} = {}\n", option.key(), to_toml(get_option(config, option)));
    }
  }
  return out;
}

bool operator==(const Config& a, const Config& b) {
  return resolved_toml(a) == resolved_toml(b);
}

std::uint64_t config_hash(const Config& config) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : resolved_toml(config)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace zero
