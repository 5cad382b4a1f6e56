#include "app/models/gpt2.h"

#include <cmath>

#include <fmt/format.h>

#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include "zero/base/error/error.h"

#include "app/models/option_checks.h"

namespace zero {
namespace {

namespace nn = torch::nn;

constexpr double kDeviation = 0.02;

torch::Tensor first_weight(at::IntArrayRef shape, double deviation, const Gpt2Options& options) {
  torch::Tensor weight = torch::empty(shape);
  if (options.random_weights) weight.normal_(0, deviation);
  return weight;
}

double residual_deviation(const Gpt2Options& options) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
}

nn::Embedding make_embedding(std::int64_t count, const Gpt2Options& options) {
  return nn::Embedding(
      nn::EmbeddingOptions(count, options.width)._weight(first_weight({count, options.width}, kDeviation, options)));
}

nn::LayerNorm make_norm(const Gpt2Options& options) {
  return nn::LayerNorm(nn::LayerNormOptions({options.width}).eps(1e-5));
}

torch::Tensor dropped(const torch::Tensor& x, double probability, bool training) {
  return probability > 0 && training ? at::dropout(x, probability, true) : x;
}

}  // namespace

void check(const Gpt2Options& o) {
  require_positive("model.layers", o.layers);
  require_positive("model.width", o.width);
  require_positive("model.heads", o.heads);
  require_positive("model.context", o.context);
  require_positive("model.vocab", o.vocab);
  require_option(o.width % o.heads == 0, "model.heads", static_cast<double>(o.heads), "does not divide the width",
                 fmt::format("model.width is {}: choose a divisor of it", o.width));
  require_dropout(o.dropout);
}

double flops_per_token(const Gpt2Options& o, std::int64_t context) {
  // Every token uses the blocks' matrices and the head. The embeddings are only looked up.
  const auto weights = static_cast<double>(12 * o.layers * o.width * o.width + o.vocab * o.width);
  return 6 * weights + 12.0 * static_cast<double>(o.layers * o.width * context);
}

Conv1DImpl::Conv1DImpl(std::int64_t in, std::int64_t out, double deviation, const Gpt2Options& options)
    : weight_(register_parameter("weight", first_weight({in, out}, deviation, options))),
      bias_(register_parameter("bias", torch::zeros({out}))) {}

torch::Tensor Conv1DImpl::forward(const torch::Tensor& x) {
  auto shape = x.sizes().vec();
  shape.back() = weight_.size(1);
  return at::addmm(bias_, x.view({-1, x.size(-1)}), weight_).view(shape);
}

Gpt2AttentionImpl::Gpt2AttentionImpl(const Gpt2Options& options)
    : heads_(options.heads),
      dropout_(options.dropout),
      c_attn_(register_module("c_attn", Conv1D(options.width, 3 * options.width, kDeviation, options))),
      c_proj_(register_module("c_proj", Conv1D(options.width, options.width, residual_deviation(options), options))) {}

torch::Tensor Gpt2AttentionImpl::forward(const torch::Tensor& x) {
  const auto batch = x.size(0), time = x.size(1), width = x.size(2);
  const auto by_head = [&](const torch::Tensor& y) {
    return y.view({batch, time, heads_, width / heads_}).transpose(1, 2);
  };
  const auto qkv = c_attn_->forward(x).split(width, 2);
  const auto mixed = at::scaled_dot_product_attention(by_head(qkv[0]), by_head(qkv[1]), by_head(qkv[2]), {},
                                                      is_training() ? dropout_ : 0.0, /*is_causal=*/true);
  const auto y = c_proj_->forward(mixed.transpose(1, 2).contiguous().view({batch, time, width}));
  return dropped(y, dropout_, is_training());
}

Gpt2MlpImpl::Gpt2MlpImpl(const Gpt2Options& options)
    : dropout_(options.dropout),
      c_fc_(register_module("c_fc", Conv1D(options.width, 4 * options.width, kDeviation, options))),
      c_proj_(
          register_module("c_proj", Conv1D(4 * options.width, options.width, residual_deviation(options), options))) {}

torch::Tensor Gpt2MlpImpl::forward(const torch::Tensor& x) {
  const auto y = c_proj_->forward(at::gelu(c_fc_->forward(x), "tanh"));
  return dropped(y, dropout_, is_training());
}

Gpt2BlockImpl::Gpt2BlockImpl(const Gpt2Options& options)
    : ln_1_(register_module("ln_1", make_norm(options))),
      attn_(register_module("attn", Gpt2Attention(options))),
      ln_2_(register_module("ln_2", make_norm(options))),
      mlp_(register_module("mlp", Gpt2Mlp(options))) {}

torch::Tensor Gpt2BlockImpl::forward(const torch::Tensor& input) {
  const auto x = input + attn_->forward(ln_1_->forward(input));
  return x + mlp_->forward(ln_2_->forward(x));
}

Gpt2TransformerImpl::Gpt2TransformerImpl(const Gpt2Options& options)
    : dropout_(options.dropout),
      checkpoint_(options.checkpoint),
      checkpoint_options_(options.checkpoint_options),
      wte_(register_module("wte", make_embedding(options.vocab, options))),
      wpe_(register_module("wpe", make_embedding(options.context, options))),
      h_(register_module("h", nn::ModuleList())),
      ln_f_(nullptr) {
  for (std::int64_t i = 0; i < options.layers; ++i) h_->push_back(Gpt2Block(options));
  ln_f_ = register_module("ln_f", make_norm(options));
}

torch::Tensor Gpt2TransformerImpl::forward(const torch::Tensor& tokens) {
  const auto places = torch::arange(tokens.size(1), tokens.options());
  auto x = dropped(wte_->forward(tokens) + wpe_->forward(places), dropout_, is_training());
  for (const auto& block : *h_) {
    const auto run = [block](const std::vector<torch::Tensor>& in) { return block->as<Gpt2Block>()->forward(in[0]); };
    x = checkpoint_ && is_training() ? checkpoint(run, {x}, checkpoint_options_) : run({x});
  }
  return ln_f_->forward(x);
}

Gpt2Impl::Gpt2Impl(const Gpt2Options& options)
    : options_((check(options), options)), transformer_(register_module("transformer", Gpt2Transformer(options))) {}

torch::Tensor Gpt2Impl::hidden(const torch::Tensor& tokens) {
  if (tokens.size(1) > options_.context) {
    throw ConfigError("data.context", fmt::format("{}", tokens.size(1)), "a sequence longer than the model's context",
                      fmt::format("model.context is {}: use shorter sequences or a longer context", options_.context));
  }
  return transformer_->forward(tokens);
}

torch::Tensor Gpt2Impl::forward(const torch::Tensor& tokens) {
  return at::linear(hidden(tokens), transformer_->token_weight());
}

torch::Tensor Gpt2Impl::next_token_logits(const torch::Tensor& tokens) {
  return at::linear(hidden(tokens).select(1, -1), transformer_->token_weight());
}

}  // namespace zero
