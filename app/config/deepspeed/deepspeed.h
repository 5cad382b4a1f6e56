// convert_deepspeed(): DeepSpeed's configuration in the words of zero.cpp, for `zero convert`.
//
//   const ConvertedConfig converted = convert_deepspeed(read_file("ds_config.json"), "ds_config.json");
//   converted.kept      {"zero.stage", 2, "zero_optimization.stage"}, ...
//   converted.dropped   {"zero_optimization.overlap_comm", "gathers and reductions always overlap ..."}, ...
//   to_toml(converted, "ds_config.json")      the text of a configuration file, with both lists as comments
//
// Each key of the file is in `kept` or in `dropped`, except keys that are switched off. Our option allows each kept
// value. A default of DeepSpeed that differs from ours is also in `kept` or in `dropped` (deepspeed_defaults.h). "auto"
// becomes the default of Hugging Face's Trainer.
//
// Local. Throws ConfigError under "FILE: KEY" if the text is not JSON, has a key twice, or a value of the wrong kind.
// Also for keys that DeepSpeed does not allow together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/config/options/value.h"

namespace zero {

struct KeptKey {
  std::string name;  // our key: "zero.stage"
  Value value;
  std::string from;      // DeepSpeed's key, with a remark if the two keys differ slightly
  bool assumed = false;  // is the value a default of the Trainer's arguments?
};

struct DroppedKey {
  std::string name;    // DeepSpeed's key: "zero_optimization.overlap_comm"
  std::string reason;  // why zero.cpp has no such key, or which key to use instead
};

struct ConvertedConfig {
  std::vector<KeptKey> kept;  // in the order of the option table
  std::vector<DroppedKey> dropped;
};

// Converts the text of a DeepSpeed configuration. `path` is the name for messages.
ConvertedConfig convert_deepspeed(std::string_view json, std::string_view path);

std::string to_toml(const ConvertedConfig& converted, std::string_view path);

// Returns the reason why a key of DeepSpeed has no counterpart.
std::string_view reason_to_drop(std::string_view name);
// Does `false` for this key change the training? For most keys `false` only switches a feature off.
bool false_counts(std::string_view name);

}  // namespace zero
