// convert_deepspeed(): DeepSpeed's configuration in the words of zero.cpp, for `zero convert`.
//
//   const ConvertedConfig converted = convert_deepspeed(read_file("ds_config.json"), "ds_config.json");
//   converted.kept      {"zero.stage", 2, "zero_optimization.stage"}, ...
//   converted.dropped   {"zero_optimization.overlap_comm", "gathers and reductions always overlap ..."}, ...
//   to_toml(converted, "ds_config.json")      the text of a configuration file, with both lists as comments
//
// Invariants: each key of the file is in `kept` or in `dropped`, except keys that are switched off. Each kept value is
// one that its option allows. A default of DeepSpeed that differs from ours is also kept, or named in `dropped`
// (deepspeed_defaults.h). "auto" takes the default of Hugging Face's Trainer.
//
// Local. Throws ConfigError under "FILE: KEY" for text that is not JSON, a key twice, a value of the wrong kind, and keys
// that DeepSpeed does not allow together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/config/value.h"

namespace zero {

struct KeptKey {
  std::string name;  // ours: "zero.stage"
  Value value;
  std::string from;      // DeepSpeed's, with a remark where the two differ a little
  bool assumed = false;  // "auto" in the file: the value is a default of the Trainer's arguments
};

struct DroppedKey {
  std::string name;    // DeepSpeed's: "zero_optimization.overlap_comm"
  std::string reason;  // why zero.cpp has none, or which key of ours serves
};

struct ConvertedConfig {
  std::vector<KeptKey> kept;  // in the order of the option table
  std::vector<DroppedKey> dropped;
};

// `path` is only the name that messages use.
ConvertedConfig convert_deepspeed(std::string_view json, std::string_view path);

std::string to_toml(const ConvertedConfig& converted, std::string_view path);

// Why a key of DeepSpeed's has no counterpart.
std::string_view reason_to_drop(std::string_view name);
// Does `false` under this key ask for something? Of most keys it only switches something off.
bool false_counts(std::string_view name);

}  // namespace zero
