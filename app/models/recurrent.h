// RowClassifier, RecurrentLm: torch::nn::RNN (tanh), LSTM or GRU as an image classifier, and as a language model.
//
//   RowClassifier reader(RecurrentOptions{.cell = Cell::kLstm, .hidden = 128}, /*row=*/28, /*classes=*/10);
//   auto scores = reader->forward(images);      // [batch, 28 * 28] -> [batch, 10]
//   RecurrentLm model(RecurrentOptions{.cell = Cell::kGru, .hidden = 256}, /*vocab=*/256);
//   auto logits = model->forward(tokens);       // [batch, time] int64 -> [batch, time, vocab]
//
// RowClassifier reads an image row by row. Each sequence begins with a state of zeros. Parameters:
//
//   rnn.{weight_ih_lN, weight_hh_lN, bias_ih_lN, bias_hh_lN}     as in torch.nn; a layer N of `layers`
//   head.{weight [classes or vocab, hidden], bias}
//   embed.weight [vocab, hidden]                                 of the language model
//
// The models are independent of ZeRO. Local.
#pragma once

#include <cstdint>
#include <string_view>

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/pimpl.h>

#include "app/models/language_model.h"

namespace zero {

enum class Cell : std::uint8_t { kRnn, kLstm, kGru };
std::string_view name_of(Cell cell);  // "rnn", "lstm", "gru"

struct RecurrentOptions {
  Cell cell = Cell::kLstm;
  std::int64_t hidden = 128;
  std::int64_t layers = 1;
  double dropout = 0;         // between layers
  std::int64_t context = 64;  // RecurrentLm only: most tokens that it reads again in generate()
};

// Throws ConfigError under "model.hidden", "model.layers", "model.dropout".
void check(const RecurrentOptions& options);

// Returns the operations of a forward and a backward pass: 6 for each weight, at each step of a sequence. `inputs` and
// `outputs`: numbers in and out of a step.
double flops_per_step(const RecurrentOptions& options, std::int64_t inputs, std::int64_t outputs);

// The layers: [batch, time, inputs] -> [batch, time, hidden]. Only the member of the chosen cell is set, and registered
// as "rnn" in the module that owns it.
class RecurrentLayers {
 public:
  RecurrentLayers(torch::nn::Module& owner, const RecurrentOptions& options, std::int64_t inputs);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::RNN rnn_{nullptr};
  torch::nn::LSTM lstm_{nullptr};
  torch::nn::GRU gru_{nullptr};
};

class RowClassifierImpl : public torch::nn::Module {
 public:
  // Throws ConfigError under "model.row" for a row without numbers, under "data.classes" for fewer than two classes.
  RowClassifierImpl(const RecurrentOptions& options, std::int64_t row, std::int64_t classes);
  // Converts numbers to the parameters' type. Each row of `row` numbers is a step.
  torch::Tensor forward(const torch::Tensor& images);

 private:
  std::int64_t row_;
  RecurrentLayers layers_;
  torch::nn::Linear head_;
};
TORCH_MODULE(RowClassifier);

class RecurrentLmImpl : public torch::nn::Module, public LanguageModel {
 public:
  RecurrentLmImpl(const RecurrentOptions& options, std::int64_t vocab);
  torch::Tensor forward(const torch::Tensor& tokens);
  torch::nn::Module& module() override { return *this; }
  torch::Tensor next_token_logits(const torch::Tensor& tokens) override;
  std::int64_t context() const override { return context_; }
  std::int64_t vocab() const override { return vocab_; }

 private:
  std::int64_t context_, vocab_;
  torch::nn::Embedding embed_;
  RecurrentLayers layers_;
  torch::nn::Linear head_;
};
TORCH_MODULE(RecurrentLm);

}  // namespace zero
