// Llama: a language model with Llama's architecture, as a plain torch::nn module.
//
//   Llama model(LlamaOptions{.layers = 4, .width = 128, .heads = 4, .kv_heads = 2, .context = 64, .vocab = 256});
//   auto logits = model->forward(tokens);      // tokens [batch, time] int64, time <= context -> [batch, time, vocab]
//
// Parameters have the names and layouts of Hugging Face's LlamaForCausalLM, so a published checkpoint can be loaded
// unchanged; LlamaImpl lists them. RMSNorm (arXiv:1910.07467) precedes attention and the feed-forward part. Positions
// are rotary (arXiv:2104.09864), in the form that rotates the first half of a head with the second. Attention is
// grouped-query (arXiv:2305.13245), the feed-forward part is SwiGLU (arXiv:2002.05202). There are no biases. First
// weights: normal 0.02, norms 1. The model is independent of ZeRO. Local.
#pragma once

#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/pimpl.h>

#include "zero/torch/activations/checkpoint.h"

#include "app/models/language_model.h"

namespace zero {

struct LlamaOptions {
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;  // heads of keys and values, each for heads / kv_heads of the queries; 0: as many as heads
  std::int64_t hidden = 0;    // width of the feed-forward part; 0: 8/3 of the width, rounded up to a multiple of 32
  std::int64_t context = 64;  // the longest sequence
  std::int64_t vocab = 256;
  double rope_theta = 10000;  // the longest wave of a rotary position is about 2 pi times this number of tokens
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  bool checkpoint = false;  // in training, each block is an activation checkpoint (zero/torch/activations/checkpoint.h)
  CheckpointOptions checkpoint_options{};
  bool random_weights = true;  // false: memory is not initialized, for a model that will be loaded from a file

  std::int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  std::int64_t hidden_width() const { return hidden != 0 ? hidden : (8 * width / 3 + 31) / 32 * 32; }
};

// Throws ConfigError under "model.layers", "model.kv_heads" ... for values that make no model.
void check(const LlamaOptions& options);

// Returns the multiplications and additions of a forward and a backward pass, per token, counted as in gpt2.h.
double flops_per_token(const LlamaOptions& options, std::int64_t context);

// Computes y = x W^T with W [out, in]: a linear layer without a bias.
class ProjectionImpl : public torch::nn::Module {
 public:
  ProjectionImpl(std::int64_t in, std::int64_t out, const LlamaOptions& options);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::Tensor weight_;
};
TORCH_MODULE(Projection);

// Computes x / sqrt(mean(x^2) + eps) * weight over the last dimension. The quotient is computed in fp32.
class RmsNormImpl : public torch::nn::Module {
 public:
  RmsNormImpl(std::int64_t width, double eps);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  double eps_;
  torch::Tensor weight_;
};
TORCH_MODULE(RmsNorm);

class LlamaAttentionImpl : public torch::nn::Module {
 public:
  explicit LlamaAttentionImpl(const LlamaOptions& options);
  // `cos` and `sin` [time, width / heads]: cosines and sines of each position's angles.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin);

 private:
  std::int64_t heads_, kv_heads_;
  Projection q_proj_, k_proj_, v_proj_, o_proj_;
};
TORCH_MODULE(LlamaAttention);

// Computes down(silu(gate(x)) * up(x)).
class LlamaMlpImpl : public torch::nn::Module {
 public:
  explicit LlamaMlpImpl(const LlamaOptions& options);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  Projection gate_proj_, up_proj_, down_proj_;
};
TORCH_MODULE(LlamaMlp);

class LlamaBlockImpl : public torch::nn::Module {
 public:
  explicit LlamaBlockImpl(const LlamaOptions& options);
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin);

 private:
  LlamaAttention self_attn_;
  LlamaMlp mlp_;
  RmsNorm input_layernorm_, post_attention_layernorm_;
};
TORCH_MODULE(LlamaBlock);

// All of the model except the head: the part that published files prefix with "model.".
class LlamaBodyImpl : public torch::nn::Module {
 public:
  explicit LlamaBodyImpl(const LlamaOptions& options);
  torch::Tensor forward(const torch::Tensor& tokens);
  const torch::Tensor& token_weight() const { return embed_tokens_->weight; }

 private:
  LlamaOptions options_;
  torch::nn::Embedding embed_tokens_;
  torch::nn::ModuleList layers_;
  RmsNorm norm_;
};
TORCH_MODULE(LlamaBody);

// Parameters:
//
//   model.embed_tokens.weight [vocab, width]
//   model.layers.N.input_layernorm.weight [width]             model.layers.N.post_attention_layernorm.weight [width]
//   model.layers.N.self_attn.q_proj.weight [width, width]     model.layers.N.self_attn.o_proj.weight [width, width]
//   model.layers.N.self_attn.{k_proj, v_proj}.weight [kv_heads * width / heads, width]
//   model.layers.N.mlp.{gate_proj, up_proj}.weight [hidden, width]  model.layers.N.mlp.down_proj.weight [width, hidden]
//   model.norm.weight [width]                                 lm_head.weight [vocab, width]
//
// With tie_embeddings the head is model.embed_tokens.weight again, and there is no lm_head.weight.
class LlamaImpl : public torch::nn::Module, public LanguageModel {
 public:
  explicit LlamaImpl(const LlamaOptions& options);

  // Throws ConfigError if the sequence is longer than the context.
  torch::Tensor forward(const torch::Tensor& tokens);
  torch::nn::Module& module() override { return *this; }
  torch::Tensor next_token_logits(const torch::Tensor& tokens) override;
  std::int64_t context() const override { return options_.context; }
  std::int64_t vocab() const override { return options_.vocab; }

  const LlamaOptions& options() const { return options_; }

 private:
  torch::Tensor hidden(const torch::Tensor& tokens);
  torch::Tensor head(const torch::Tensor& x);

  LlamaOptions options_;
  LlamaBody model_;
  Projection lm_head_{nullptr};  // null if the head is tied
};
TORCH_MODULE(Llama);

}  // namespace zero
