// generate(): generates text from a language model, one token after the other.
//
//   Gpt2 model(...);
//   std::vector<std::int64_t> more = generate(*model, {'O', 'h'}, {.tokens = 100, .seed = 7}, print);
//
// The model reads the last `context` tokens. Draws use a random generator of their own, so a sample does not change a
// training run. The same weights and seed give the same text on every rank. Collective if the model is attached: every
// rank must call with the same arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <c10/core/Device.h>

#include "app/models/language_model.h"

namespace zero {

struct GenerateOptions {
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0, or below 1e-6: always the likeliest token
  std::int64_t top_k = 0;    // draws only from the k likeliest tokens; 0: from all
  std::uint64_t seed = 1337;
  // device on which the model computes; draws are made on the CPU
  c10::Device place = c10::Device(c10::DeviceType::CPU);
};

// Throws ConfigError under "--tokens", "--temperature", "--top-k" for values out of range.
void check(const GenerateOptions& options);

// Returns the new tokens, without the prompt; calls `each`, if given, with every new token. An empty prompt starts from
// token 10, the line break of a model of bytes. Throws ConfigError under "--prompt" for a token that the model does not
// know.
std::vector<std::int64_t> generate(LanguageModel& model, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options,
                                   const std::function<void(std::int64_t token)>& each = {});

}  // namespace zero
