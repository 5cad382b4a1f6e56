// Bert: BERT as a text classifier (Devlin et al., arXiv:1810.04805), as a plain torch::nn module.
//
//   Bert model(BertOptions{.layers = 2, .width = 128, .heads = 2, .context = 64, .vocab = 4000, .classes = 2});
//   auto scores = model->forward(tokens);      // tokens [batch, time] int64, time <= context -> [batch, classes]
//
// Parameters have the names of Hugging Face's BertForSequenceClassification, so a published checkpoint can be loaded
// unchanged; BertImpl lists them. Norms follow each addition, gelu is exact, LayerNorm eps is 1e-12. The last state of
// the first token passes through the pooler (linear, tanh) to the classifier. No token attends to a token `pad`. First
// weights: normal 0.02, biases 0. The model is independent of ZeRO. Local.
#pragma once

#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "zero/torch/activations/checkpoint.h"

namespace zero {

struct BertOptions {
  std::int64_t layers = 2;
  std::int64_t width = 128;
  std::int64_t heads = 2;
  std::int64_t hidden = 0;    // width of the feed-forward part; 0: four times the width
  std::int64_t context = 64;  // the longest sequence
  std::int64_t vocab = 4000;
  std::int64_t classes = 2;
  std::int64_t pad = 0;     // the token that fills short sequences
  double dropout = 0;       // after the embeddings, in attention, before each addition and before the classifier
  bool checkpoint = false;  // in training, each layer is an activation checkpoint (zero/torch/activations/checkpoint.h)
  CheckpointOptions checkpoint_options{};
  bool random_weights = true;  // false: memory is not initialized, for a model that will be loaded from a file

  std::int64_t hidden_width() const { return hidden != 0 ? hidden : 4 * width; }
};

// Throws ConfigError under "model.layers", "model.heads" ... for values that make no model. Throws it under
// "data.classes" for fewer than two classes.
void check(const BertOptions& options);

// Returns the multiplications and additions of a forward and a backward pass, per sequence of `context` tokens.
double flops_per_sequence(const BertOptions& options, std::int64_t context);

class BertEmbeddingsImpl : public torch::nn::Module {
 public:
  explicit BertEmbeddingsImpl(const BertOptions& options);
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  double dropout_;
  torch::nn::Embedding word_embeddings_, position_embeddings_, token_type_embeddings_;
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(BertEmbeddings);

// Computes norm(input + dropout(dense(x))): the "output" of attention and of the feed-forward part.
class BertOutputImpl : public torch::nn::Module {
 public:
  BertOutputImpl(std::int64_t in, const BertOptions& options);
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& input);

 private:
  double dropout_;
  torch::nn::Linear dense_;
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(BertOutput);

class BertSelfAttentionImpl : public torch::nn::Module {
 public:
  explicit BertSelfAttentionImpl(const BertOptions& options);
  // `seen` [batch, 1, 1, time] bool: false for padding.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& seen);

 private:
  std::int64_t heads_;
  double dropout_;
  torch::nn::Linear query_, key_, value_;
};
TORCH_MODULE(BertSelfAttention);

class BertLayerImpl : public torch::nn::Module {
 public:
  explicit BertLayerImpl(const BertOptions& options);
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& seen);

 private:
  BertSelfAttention self_{nullptr};
  BertOutput attention_output_{nullptr};
  torch::nn::Linear intermediate_{nullptr};
  BertOutput output_{nullptr};
};
TORCH_MODULE(BertLayer);

// Parameters:
//
//   bert.embeddings.{word_embeddings.weight [vocab, width], position_embeddings.weight [context, width],
//                    token_type_embeddings.weight [2, width], LayerNorm.{weight, bias}}
//   bert.encoder.layer.N.attention.self.{query, key, value}.{weight [width, width], bias}
//   bert.encoder.layer.N.attention.output.{dense, LayerNorm}.{weight, bias}
//   bert.encoder.layer.N.intermediate.dense.{weight [hidden, width], bias}
//   bert.encoder.layer.N.output.{dense, LayerNorm}.{weight, bias}
//   bert.pooler.dense.{weight, bias}           classifier.{weight [classes, width], bias}
class BertImpl : public torch::nn::Module {
 public:
  explicit BertImpl(const BertOptions& options);

  // Throws ConfigError if the sequence is longer than the context.
  torch::Tensor forward(const torch::Tensor& tokens);

  const BertOptions& options() const { return options_; }

 private:
  BertOptions options_;
  BertEmbeddings embeddings_{nullptr};
  torch::nn::ModuleList layers_{nullptr};
  torch::nn::Linear pooler_{nullptr};
  torch::nn::Linear classifier_{nullptr};
};
TORCH_MODULE(Bert);

}  // namespace zero
