// Any bytes as a configuration file: a ConfigError that fits one screen, or a Config that is equal after it is written
// and read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "zero/base/error/error.h"

#include "app/config/options/option.h"
#include "app/config/resolved.h"
#include "app/config/toml_source.h"

namespace {

zero::Config read(std::string_view text) {
  zero::Config config;
  for (const auto& setting : zero::parse_toml(text, "fuzz.toml")) {
    const zero::Option* option = zero::find_option(setting.name);
    if (option == nullptr) zero::throw_unknown(setting.origin, setting.name, setting.text);
    zero::set_option(config, *option, setting);
  }
  return config;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  zero::Config config;
  try {
    config = read(text);
  } catch (const zero::ConfigError& error) {
    const std::string_view message = error.what();
    if (std::count(message.begin(), message.end(), '\n') > 20) std::abort();
    return 0;
  }
  if (read(zero::resolved_toml(config)) != config) std::abort();
  return 0;
}
