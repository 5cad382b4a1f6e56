// deepspeed_default(), trainer_default(): the defaults of DeepSpeed 0.19.8 and of Hugging Face's Trainer.
//
//   deepspeed_default("gradient_clipping")                 // 1.0
//   deepspeed_default("lion.beta2")                        // 0.999
//   trainer_default("optimizer.params.lr")->json           // "5e-5", the default of learning_rate
//
// DeepSpeed uses its default if its file does not have the key. The Trainer replaces "auto" by its default if the user
// did not set the argument. tests/config/deepspeed/deepspeed_defaults_test.cpp compares both tables with the installed
// packages.
//
// Values; Local.
#pragma once

#include <span>
#include <string_view>

namespace zero {

// The name of an optimizer's key is TYPE.KEY in lower case, that of a scheduler's key TYPE.KEY. Other keys have their
// section before them.
struct DeepSpeedDefault {
  std::string_view name;
  double value;
};
std::span<const DeepSpeedDefault> deepspeed_defaults();
// Returns the default of a key, which must be in the table.
double deepspeed_default(std::string_view name);

struct TrainerDefault {
  std::string_view name;   // DeepSpeed's key: "optimizer.params.lr"
  std::string_view field;  // member of transformers.TrainingArguments: "learning_rate"
  std::string_view json;   // "5e-5"
};
std::span<const TrainerDefault> trainer_defaults();
// Returns null if the Trainer does not fill in this key.
const TrainerDefault* trainer_default(std::string_view name);

}  // namespace zero
