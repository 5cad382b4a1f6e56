// deepspeed_default(): the value that DeepSpeed 0.19.8 takes if its file has no such key; trainer_default(): the value that
// Hugging Face's Trainer puts in place of "auto" if its arguments say nothing.
//
//   deepspeed_default("gradient_clipping")                 // 1.0
//   deepspeed_default("lion.beta2")                        // 0.999
//   trainer_default("optimizer.params.lr")->json           // "5e-5", the default of learning_rate
//
// Both tables are compared with the installed packages by tests/config/deepspeed/deepspeed_defaults_test.cpp. Values; Local.
#pragma once

#include <span>
#include <string_view>

namespace zero {

// Of an optimizer the name is TYPE.KEY in small letters, of a scheduler TYPE.KEY; else the key with its section.
struct DeepSpeedDefault {
  std::string_view name;
  double value;
};
std::span<const DeepSpeedDefault> deepspeed_defaults();
// The name must be in the table.
double deepspeed_default(std::string_view name);

struct TrainerDefault {
  std::string_view name;   // DeepSpeed's key: "optimizer.params.lr"
  std::string_view field;  // of transformers.TrainingArguments: "learning_rate"
  std::string_view json;   // "5e-5"
};
std::span<const TrainerDefault> trainer_defaults();
// Null: the Trainer fills in no such key.
const TrainerDefault* trainer_default(std::string_view name);

}  // namespace zero
