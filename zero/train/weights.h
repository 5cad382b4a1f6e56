// A model's weights from and to safetensors files, so that no rank ever holds them all.
//
//   SafetensorsFile file = map_weights(task.module(), "init.safetensors");   // lives until attach() has returned
//   std::string sha = save_weights(engine, "model.safetensors", rank == 0);
//
// Loading points the parameters at the mapped file, and attach() copies its shard from there. It is strict: every
// parameter must be there with its shape, and nothing else. Allowed besides are, as published GPT-2 files have them:
// names with or without a leading "transformer.", the constant masks attn.bias and attn.masked_bias, and the tied head
// lm_head.weight when it has wte's shape. F32 and BF16 are read in place; F16 is converted, in memory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "zero/checkpoint/safetensors_file.h"
#include "zero/plan/param_spec.h"
#include "zero/torch/attach.h"

namespace zero {

// Which tensor of the file is which parameter's: one for each of `specs`, in their order. Local.
// Throws ConfigError under "model.init" that names what is missing, too much, or of another shape or type.
std::vector<const SafetensorsEntry*> match_weights(const SafetensorsFile& file, const std::vector<ParamSpec>& specs,
                                                   const std::string& path);

// Local. What the module was made with is given up: best a deferred one, which has not been given memory yet.
SafetensorsFile map_weights(torch::nn::Module& module, const std::filesystem::path& path);

// Collective. Writes on the rank where `writes` is true. Returns the SHA-256 over all parameters in name order, in the
// full precision held (the master where there is one), on that rank; empty on the others.
std::string save_weights(Attachment& engine, const std::filesystem::path& path, bool writes);

}  // namespace zero
