// generate(): text, one token after the other, from a language model.
//
//   Gpt2 model(...);
//   std::vector<std::int64_t> more = generate(*model, {'O', 'h'}, {.tokens = 100, .seed = 7}, print);
//
// The model reads the last `context` tokens. Draws come from a generator of their own, so a sample changes nothing of a
// training run, and the same weights and seed give the same text on every rank. Collective when the model is attached:
// every rank must ask for the same.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <c10/core/Device.h>

#include "zero/models/language_model.h"

namespace zero {

struct GenerateOptions {
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  std::int64_t top_k = 0;    // only the k likeliest tokens are drawn from; 0: all
  std::uint64_t seed = 1337;
  c10::Device place = c10::Device(c10::DeviceType::CPU);  // where the model computes; draws are made on the CPU
};

// Throws ConfigError under "--tokens", "--temperature", "--top-k" for values out of range.
void check(const GenerateOptions& options);

// The new tokens, without the prompt; `each` (when given) sees them as they come. An empty prompt starts from token 10,
// the line break of a model of bytes. Throws ConfigError under "--prompt" for a token that the model does not know.
std::vector<std::int64_t> generate(LanguageModel& model, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options,
                                   const std::function<void(std::int64_t token)>& each = {});

}  // namespace zero
