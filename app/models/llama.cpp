#include "app/models/llama.h"

#include <fmt/format.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>

#include "zero/base/error/error.h"

#include "app/models/option_checks.h"

namespace zero {
namespace {

namespace nn = torch::nn;

torch::Tensor llama_weight(at::IntArrayRef shape, const LlamaOptions& options) {
  torch::Tensor weight = torch::empty(shape);
  if (options.random_weights) weight.normal_(0, 0.02);
  return weight;
}

// Rotates each pair (x_i, x_{i + size/2}) of a head by its position's angle.
torch::Tensor turned(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return x * cos + at::cat({-halves[1], halves[0]}, -1) * sin;
}

}  // namespace

void check(const LlamaOptions& o) {
  require_positive("model.layers", o.layers);
  require_positive("model.width", o.width);
  require_positive("model.heads", o.heads);
  require_positive("model.context", o.context);
  require_positive("model.vocab", o.vocab);
  require_option(o.width % o.heads == 0 && o.width / o.heads % 2 == 0, "model.heads", static_cast<double>(o.heads),
                 "does not cut the width into heads of an even size",
                 fmt::format("model.width is {}: rotary positions turn pairs of a head's elements", o.width));
  require_option(o.kv_heads >= 0 && o.heads % o.key_heads() == 0, "model.kv_heads", static_cast<double>(o.kv_heads),
                 "does not divide the heads",
                 fmt::format("model.heads is {}: choose a divisor of it, or 0 for as many", o.heads));
  require_option(o.hidden >= 0, "model.hidden", static_cast<double>(o.hidden), "not a width",
                 "use 1 or more, or 0 for 8/3 of model.width");
  require_option(o.rope_theta > 0, "model.rope_theta", o.rope_theta, "not a wave's length", "use for example 10000");
}

double flops_per_token(const LlamaOptions& o, std::int64_t context) {
  const std::int64_t head = o.width / o.heads;
  const auto attention = 2 * o.width * o.width + 2 * o.width * head * o.key_heads();
  const auto weights = o.layers * (attention + 3 * o.width * o.hidden_width()) + o.vocab * o.width;
  return 6.0 * static_cast<double>(weights) + 12.0 * static_cast<double>(o.layers * o.width * context);
}

ProjectionImpl::ProjectionImpl(std::int64_t in, std::int64_t out, const LlamaOptions& options)
    : weight_(register_parameter("weight", llama_weight({out, in}, options))) {}

torch::Tensor ProjectionImpl::forward(const torch::Tensor& x) {
  return at::linear(x, weight_);
}

RmsNormImpl::RmsNormImpl(std::int64_t width, double eps)
    : eps_(eps), weight_(register_parameter("weight", torch::ones({width}))) {}

torch::Tensor RmsNormImpl::forward(const torch::Tensor& x) {
  const auto exact = x.to(at::kFloat);
  const auto normed = exact * at::rsqrt(exact.pow(2).mean(-1, /*keepdim=*/true) + eps_);
  return weight_ * normed.to(x.scalar_type());
}

LlamaAttentionImpl::LlamaAttentionImpl(const LlamaOptions& o)
    : heads_(o.heads),
      kv_heads_(o.key_heads()),
      q_proj_(register_module("q_proj", Projection(o.width, o.width, o))),
      k_proj_(register_module("k_proj", Projection(o.width, o.width / o.heads * kv_heads_, o))),
      v_proj_(register_module("v_proj", Projection(o.width, o.width / o.heads * kv_heads_, o))),
      o_proj_(register_module("o_proj", Projection(o.width, o.width, o))) {}

torch::Tensor LlamaAttentionImpl::forward(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin) {
  const auto batch = x.size(0), time = x.size(1), width = x.size(2);
  const auto by_head = [&](const torch::Tensor& y, std::int64_t heads) {
    return y.view({batch, time, heads, width / heads_}).transpose(1, 2);
  };
  const auto q = turned(by_head(q_proj_->forward(x), heads_), cos, sin);
  auto k = turned(by_head(k_proj_->forward(x), kv_heads_), cos, sin);
  auto v = by_head(v_proj_->forward(x), kv_heads_);
  if (kv_heads_ != heads_) {
    k = k.repeat_interleave(heads_ / kv_heads_, 1);
    v = v.repeat_interleave(heads_ / kv_heads_, 1);
  }
  const auto mixed = at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
  return o_proj_->forward(mixed.transpose(1, 2).contiguous().view({batch, time, width}));
}

LlamaMlpImpl::LlamaMlpImpl(const LlamaOptions& o)
    : gate_proj_(register_module("gate_proj", Projection(o.width, o.hidden_width(), o))),
      up_proj_(register_module("up_proj", Projection(o.width, o.hidden_width(), o))),
      down_proj_(register_module("down_proj", Projection(o.hidden_width(), o.width, o))) {}

torch::Tensor LlamaMlpImpl::forward(const torch::Tensor& x) {
  return down_proj_->forward(at::silu(gate_proj_->forward(x)) * up_proj_->forward(x));
}

LlamaBlockImpl::LlamaBlockImpl(const LlamaOptions& o)
    : self_attn_(register_module("self_attn", LlamaAttention(o))),
      mlp_(register_module("mlp", LlamaMlp(o))),
      input_layernorm_(register_module("input_layernorm", RmsNorm(o.width, o.norm_eps))),
      post_attention_layernorm_(register_module("post_attention_layernorm", RmsNorm(o.width, o.norm_eps))) {}

torch::Tensor LlamaBlockImpl::forward(const torch::Tensor& input, const torch::Tensor& cos, const torch::Tensor& sin) {
  const auto x = input + self_attn_->forward(input_layernorm_->forward(input), cos, sin);
  return x + mlp_->forward(post_attention_layernorm_->forward(x));
}

LlamaBodyImpl::LlamaBodyImpl(const LlamaOptions& o)
    : options_(o),
      embed_tokens_(register_module(
          "embed_tokens",
          nn::Embedding(nn::EmbeddingOptions(o.vocab, o.width)._weight(llama_weight({o.vocab, o.width}, o))))),
      layers_(register_module("layers", nn::ModuleList())),
      norm_(nullptr) {
  for (std::int64_t i = 0; i < o.layers; ++i) layers_->push_back(LlamaBlock(o));
  norm_ = register_module("norm", RmsNorm(o.width, o.norm_eps));
}

torch::Tensor LlamaBodyImpl::forward(const torch::Tensor& tokens) {
  auto x = embed_tokens_->forward(tokens);
  // The frequencies are theta^(-2i / size), in fp32 for every type of model. They occur twice, because both halves of a
  // head rotate by the same angles.
  const std::int64_t size = options_.width / options_.heads;
  const auto exact = tokens.options().dtype(at::kFloat);
  const auto frequency = at::pow(options_.rope_theta, at::arange(0, size, 2, exact) / -static_cast<double>(size));
  const auto angle = at::arange(tokens.size(1), exact).unsqueeze(1) * frequency.unsqueeze(0);
  const auto angles = at::cat({angle, angle}, 1);
  const auto cos = angles.cos().to(x.scalar_type()), sin = angles.sin().to(x.scalar_type());
  for (const auto& block : *layers_) {
    // All blocks share the angles, which need no gradient: a checkpoint keeps only its own input.
    const auto run = [block, cos, sin](const std::vector<torch::Tensor>& in) {
      return block->as<LlamaBlock>()->forward(in[0], cos, sin);
    };
    x = options_.checkpoint && is_training() ? checkpoint(run, {x}, options_.checkpoint_options) : run({x});
  }
  return norm_->forward(x);
}

LlamaImpl::LlamaImpl(const LlamaOptions& options)
    : options_((check(options), options)), model_(register_module("model", LlamaBody(options))) {
  if (!options_.tie_embeddings)
    lm_head_ = register_module("lm_head", Projection(options_.width, options_.vocab, options_));
}

torch::Tensor LlamaImpl::hidden(const torch::Tensor& tokens) {
  if (tokens.size(1) > options_.context) {
    throw ConfigError("data.context", fmt::format("{}", tokens.size(1)), "a sequence longer than the model's context",
                      fmt::format("model.context is {}: use shorter sequences or a longer context", options_.context));
  }
  return model_->forward(tokens);
}

torch::Tensor LlamaImpl::head(const torch::Tensor& x) {
  return options_.tie_embeddings ? at::linear(x, model_->token_weight()) : lm_head_->forward(x);
}

torch::Tensor LlamaImpl::forward(const torch::Tensor& tokens) {
  return head(hidden(tokens));
}

torch::Tensor LlamaImpl::next_token_logits(const torch::Tensor& tokens) {
  return head(hidden(tokens).select(1, -1));
}

}  // namespace zero
