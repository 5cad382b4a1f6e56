// Gpt2: GPT-2 as a plain torch::nn module.
//
//   Gpt2 model(Gpt2Options{.layers = 12, .width = 768, .heads = 12, .context = 1024, .vocab = 50257});
//   auto logits = model->forward(tokens);      // tokens [batch, time] int64, time <= context -> [batch, time, vocab]
//
// Parameters have Hugging Face's names and layouts, so a published checkpoint can be loaded unchanged; Gpt2Impl lists
// them. Pre-norm blocks, causal attention through scaled_dot_product_attention, gelu in its tanh form, LayerNorm eps
// 1e-5. First weights as published: normal 0.02, for projections back into the residual stream 0.02 / sqrt(2 layers),
// biases 0. The model is independent of ZeRO. Local.
#pragma once

#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "zero/torch/activations/checkpoint.h"

#include "app/models/language_model.h"

namespace zero {

struct Gpt2Options {
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t context = 64;  // the longest sequence
  std::int64_t vocab = 256;
  double dropout = 0;       // after the embeddings, in attention, before each residual addition; 0: no operator
  bool checkpoint = false;  // in training, each block is an activation checkpoint (zero/torch/activations/checkpoint.h)
  CheckpointOptions checkpoint_options{};  // location of the stored inputs
  bool random_weights = true;  // false: memory is not initialized, for a model that will be loaded from a file
};

// Throws ConfigError under "model.layers", "model.heads" ... for values that make no model.
void check(const Gpt2Options& options);

// Returns the multiplications and additions of a forward and a backward pass, per token, for sequences of `context`
// tokens. Counts 6 for each weight that a token uses, and 12 layers x width x context for attention (PaLM, appendix B).
double flops_per_token(const Gpt2Options& options, std::int64_t context);

// Computes y = x W + b with W [in, out], as GPT-2 stores its linear layers.
class Conv1DImpl : public torch::nn::Module {
 public:
  Conv1DImpl(std::int64_t in, std::int64_t out, double deviation, const Gpt2Options& options);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::Tensor weight_;
  torch::Tensor bias_;
};
TORCH_MODULE(Conv1D);

class Gpt2AttentionImpl : public torch::nn::Module {
 public:
  explicit Gpt2AttentionImpl(const Gpt2Options& options);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  std::int64_t heads_;
  double dropout_;
  Conv1D c_attn_;
  Conv1D c_proj_;
};
TORCH_MODULE(Gpt2Attention);

class Gpt2MlpImpl : public torch::nn::Module {
 public:
  explicit Gpt2MlpImpl(const Gpt2Options& options);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  double dropout_;
  Conv1D c_fc_;
  Conv1D c_proj_;
};
TORCH_MODULE(Gpt2Mlp);

class Gpt2BlockImpl : public torch::nn::Module {
 public:
  explicit Gpt2BlockImpl(const Gpt2Options& options);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::LayerNorm ln_1_;
  Gpt2Attention attn_;
  torch::nn::LayerNorm ln_2_;
  Gpt2Mlp mlp_;
};
TORCH_MODULE(Gpt2Block);

// All of the model except the head: the part that published files prefix with "transformer.".
class Gpt2TransformerImpl : public torch::nn::Module {
 public:
  explicit Gpt2TransformerImpl(const Gpt2Options& options);
  torch::Tensor forward(const torch::Tensor& tokens);
  const torch::Tensor& token_weight() const { return wte_->weight; }

 private:
  double dropout_;
  bool checkpoint_;
  CheckpointOptions checkpoint_options_;
  torch::nn::Embedding wte_;
  torch::nn::Embedding wpe_;
  torch::nn::ModuleList h_;
  torch::nn::LayerNorm ln_f_;
};
TORCH_MODULE(Gpt2Transformer);

// Parameters:
//
//   transformer.wte.weight [vocab, width]             transformer.wpe.weight [context, width]
//   transformer.h.N.ln_1.{weight, bias}               transformer.h.N.attn.c_attn.{weight [width, 3 width], bias}
//   transformer.h.N.attn.c_proj.{weight, bias}        transformer.h.N.ln_2.{weight, bias}
//   transformer.h.N.mlp.c_fc.{weight [width, 4 width], bias}      transformer.h.N.mlp.c_proj.{weight, bias}
//   transformer.ln_f.{weight, bias}
//
// The head is transformer.wte.weight again: it is tied, and not registered twice.
class Gpt2Impl : public torch::nn::Module, public LanguageModel {
 public:
  explicit Gpt2Impl(const Gpt2Options& options);

  // Throws ConfigError if the sequence is longer than the context.
  torch::Tensor forward(const torch::Tensor& tokens);
  torch::nn::Module& module() override { return *this; }
  torch::Tensor next_token_logits(const torch::Tensor& tokens) override;
  std::int64_t context() const override { return options_.context; }
  std::int64_t vocab() const override { return options_.vocab; }

  const Gpt2Options& options() const { return options_; }

 private:
  torch::Tensor hidden(const torch::Tensor& tokens);

  Gpt2Options options_;
  Gpt2Transformer transformer_;
};
TORCH_MODULE(Gpt2);

}  // namespace zero
