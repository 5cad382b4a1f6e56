// LanguageModel: a module that predicts the next token. generate() needs only this of a model.
//
//   torch::Tensor logits = model.next_token_logits(tokens);   // tokens [batch, time] int64, time <= context()
//   generate(model, prompt, {.tokens = 100});                 // generate.h
//
// Gpt2, Llama and RecurrentLm are language models. Collective if the module is attached, like every pass through it.
#pragma once

#include <cstdint>

#include <torch/nn/module.h>

namespace zero {

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual torch::nn::Module& module() = 0;
  // Returns the logits of the token after the last one, [batch, vocab].
  virtual torch::Tensor next_token_logits(const torch::Tensor& tokens) = 0;
  // Returns the largest number of tokens in one call.
  virtual std::int64_t context() const = 0;
  // Returns the number of different tokens that the model knows, from 0 on.
  virtual std::int64_t vocab() const = 0;
};

}  // namespace zero
