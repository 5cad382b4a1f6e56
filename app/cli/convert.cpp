#include "app/cli/verbs.h"

// `zero convert ds_config.json [-o zero.toml]`: converts DeepSpeed's configuration into zero.cpp's.
#include <filesystem>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

#include "app/cli/command/flags.h"
#include "app/config/deepspeed/deepspeed.h"
#include "app/config/toml_source.h"

namespace zero::cli {

int run_convert(Arguments arguments) {
  CLI::App app(
      "Converts a DeepSpeed JSON configuration to a TOML file for `zero train`, and prints keys without a counterpart.",
      "zero convert");
  std::string input, output;
  app.add_option("FILE", input, "DeepSpeed configuration, such as ds_config.json")->required();
  app.add_option("-o,--output", output, "TOML file to write; not given: print the text");
  if (!parse_flags(app, arguments)) return 0;
  require_input_file("FILE", input);
  if (std::filesystem::file_size(input) > kMaxConfigBytes)
    throw ConfigError("FILE", input, "is too large for a configuration", "name DeepSpeed's JSON file");
  const ConvertedConfig converted = convert_deepspeed(read_file(input), input);
  const std::string text = to_toml(converted, std::filesystem::path(input).filename().string());
  if (output.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  std::error_code ignored;
  if (std::filesystem::exists(output, ignored))
    throw ConfigError("-o", output, "exists already", "name another file, or remove this file");
  write_file(output, text);
  fmt::print("{}: {} keys; fill in [model] and [data]\n", output, converted.kept.size());
  for (const KeptKey& kept : converted.kept)
    if (kept.assumed) fmt::print("  {} = {}: {}\n", kept.name, to_toml(kept.value), kept.from);
  for (const DroppedKey& dropped : converted.dropped)
    fmt::print("  not carried over: {}: {}\n", dropped.name, dropped.reason);
  return 0;
}

}  // namespace zero::cli
