#include "app/models/bert.h"

#include <memory>

#include <fmt/format.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include "zero/base/error/error.h"

#include "app/models/option_checks.h"

namespace zero {
namespace {

namespace nn = torch::nn;

// Registers a module that only groups others under a name, as in published files.
std::shared_ptr<nn::Module> group_in(nn::Module& owner, const std::string& name) {
  return owner.register_module(name, std::make_shared<nn::Module>(name));
}

nn::Linear bert_linear(std::int64_t in, std::int64_t out, const BertOptions& options) {
  nn::Linear linear(in, out);
  const torch::NoGradGuard no_gradients;
  if (options.random_weights) linear->weight.normal_(0, 0.02);
  linear->bias.zero_();
  return linear;
}

nn::Embedding bert_embedding(std::int64_t count, const BertOptions& options) {
  torch::Tensor weight = torch::empty({count, options.width});
  if (options.random_weights) weight.normal_(0, 0.02);
  return nn::Embedding(nn::EmbeddingOptions(count, options.width)._weight(weight));
}

nn::LayerNorm bert_norm(const BertOptions& options) {
  return nn::LayerNorm(nn::LayerNormOptions({options.width}).eps(1e-12));
}

torch::Tensor with_dropout(const torch::Tensor& x, double probability, bool training) {
  return probability > 0 && training ? at::dropout(x, probability, true) : x;
}

}  // namespace

void check(const BertOptions& o) {
  require_positive("model.layers", o.layers);
  require_positive("model.width", o.width);
  require_positive("model.heads", o.heads);
  require_positive("model.context", o.context);
  require_positive("model.vocab", o.vocab);
  require_classes(o.classes);
  require_option(o.width % o.heads == 0, "model.heads", static_cast<double>(o.heads), "does not divide the width",
                 fmt::format("model.width is {}: choose a divisor of it", o.width));
  require_dropout(o.dropout);
}

double flops_per_sequence(const BertOptions& o, std::int64_t context) {
  const auto weights = static_cast<double>(o.layers * (4 * o.width * o.width + 2 * o.width * o.hidden_width()));
  const auto tokens = static_cast<double>(context);
  const double once = static_cast<double>(o.width * o.width + o.classes * o.width);  // pooler and classifier
  return 6 * (weights * tokens + once) + 12.0 * static_cast<double>(o.layers * o.width) * tokens * tokens;
}

BertEmbeddingsImpl::BertEmbeddingsImpl(const BertOptions& o)
    : dropout_(o.dropout),
      word_embeddings_(register_module("word_embeddings", bert_embedding(o.vocab, o))),
      position_embeddings_(register_module("position_embeddings", bert_embedding(o.context, o))),
      token_type_embeddings_(register_module("token_type_embeddings", bert_embedding(2, o))),
      norm_(register_module("LayerNorm", bert_norm(o))) {}

torch::Tensor BertEmbeddingsImpl::forward(const torch::Tensor& tokens) {
  const auto places = at::arange(tokens.size(1), tokens.options());
  const auto x = word_embeddings_->forward(tokens) + position_embeddings_->forward(places) +
                 token_type_embeddings_->forward(at::zeros_like(tokens));
  return with_dropout(norm_->forward(x), dropout_, is_training());
}

BertOutputImpl::BertOutputImpl(std::int64_t in, const BertOptions& o)
    : dropout_(o.dropout),
      dense_(register_module("dense", bert_linear(in, o.width, o))),
      norm_(register_module("LayerNorm", bert_norm(o))) {}

torch::Tensor BertOutputImpl::forward(const torch::Tensor& x, const torch::Tensor& input) {
  return norm_->forward(input + with_dropout(dense_->forward(x), dropout_, is_training()));
}

BertSelfAttentionImpl::BertSelfAttentionImpl(const BertOptions& o)
    : heads_(o.heads),
      dropout_(o.dropout),
      query_(register_module("query", bert_linear(o.width, o.width, o))),
      key_(register_module("key", bert_linear(o.width, o.width, o))),
      value_(register_module("value", bert_linear(o.width, o.width, o))) {}

torch::Tensor BertSelfAttentionImpl::forward(const torch::Tensor& x, const torch::Tensor& seen) {
  const auto batch = x.size(0), time = x.size(1), width = x.size(2);
  const auto by_head = [&](const torch::Tensor& y) {
    return y.view({batch, time, heads_, width / heads_}).transpose(1, 2);
  };
  const auto mixed = at::scaled_dot_product_attention(by_head(query_->forward(x)), by_head(key_->forward(x)),
                                                      by_head(value_->forward(x)), seen, is_training() ? dropout_ : 0.0,
                                                      /*is_causal=*/false);
  return mixed.transpose(1, 2).contiguous().view({batch, time, width});
}

BertLayerImpl::BertLayerImpl(const BertOptions& o) {
  const auto attention = group_in(*this, "attention");
  self_ = attention->register_module("self", BertSelfAttention(o));
  attention_output_ = attention->register_module("output", BertOutput(o.width, o));
  intermediate_ = group_in(*this, "intermediate")->register_module("dense", bert_linear(o.width, o.hidden_width(), o));
  output_ = register_module("output", BertOutput(o.hidden_width(), o));
}

torch::Tensor BertLayerImpl::forward(const torch::Tensor& input, const torch::Tensor& seen) {
  const auto x = attention_output_->forward(self_->forward(input, seen), input);
  return output_->forward(at::gelu(intermediate_->forward(x)), x);
}

BertImpl::BertImpl(const BertOptions& options) : options_((check(options), options)) {
  const auto bert = group_in(*this, "bert");
  embeddings_ = bert->register_module("embeddings", BertEmbeddings(options));
  layers_ = group_in(*bert, "encoder")->register_module("layer", nn::ModuleList());
  for (std::int64_t i = 0; i < options.layers; ++i) layers_->push_back(BertLayer(options));
  pooler_ = group_in(*bert, "pooler")->register_module("dense", bert_linear(options.width, options.width, options));
  classifier_ = register_module("classifier", bert_linear(options.width, options.classes, options));
}

torch::Tensor BertImpl::forward(const torch::Tensor& tokens) {
  if (tokens.size(1) > options_.context) {
    throw ConfigError("data.context", fmt::format("{}", tokens.size(1)), "a sequence longer than the model's context",
                      fmt::format("model.context is {}: use shorter sequences or a longer context", options_.context));
  }
  const auto seen = tokens.ne(options_.pad).view({tokens.size(0), 1, 1, tokens.size(1)});
  auto x = embeddings_->forward(tokens);
  for (const auto& layer : *layers_) {
    // All layers share the mask, which needs no gradient: a checkpoint keeps only its own input.
    const auto run = [layer, seen](const std::vector<torch::Tensor>& in) {
      return layer->as<BertLayer>()->forward(in[0], seen);
    };
    x = options_.checkpoint && is_training() ? checkpoint(run, {x}, options_.checkpoint_options) : run({x});
  }
  const auto pooled = at::tanh(pooler_->forward(x.select(1, 0)));
  return classifier_->forward(with_dropout(pooled, options_.dropout, is_training()));
}

}  // namespace zero
