// LanguageModel: a module that says which token comes next. generate() asks no more of a model.
//
//   torch::Tensor logits = model.next_token_logits(tokens);   // tokens [batch, time] int64, time <= context()
//   generate(model, prompt, {.tokens = 100});                 // generate.h
//
// Gpt2, Llama and RecurrentLm are language models. Collective when the module is attached, like every pass through it.
#pragma once

#include <cstdint>

#include <torch/nn/module.h>

namespace zero {

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual torch::nn::Module& module() = 0;
  // The logits of the token after the last one, [batch, vocab].
  virtual torch::Tensor next_token_logits(const torch::Tensor& tokens) = 0;
  // The most tokens to give it at once.
  virtual std::int64_t context() const = 0;
  // How many different tokens it knows, from 0 on.
  virtual std::int64_t vocab() const = 0;
};

}  // namespace zero
