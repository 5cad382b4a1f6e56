#include "app/models/recurrent.h"

#include <array>

#include <fmt/format.h>

#include "zero/base/error/error.h"

#include "app/models/option_checks.h"

namespace zero {
namespace {

namespace nn = torch::nn;

// Gates of a layer, in the order of the cells. Each gate has matrices for its input and for the hidden state.
constexpr std::array kGates{1, 4, 3};

template <typename Options>
Options layers_of(const RecurrentOptions& o, std::int64_t inputs) {
  return Options(inputs, o.hidden).num_layers(o.layers).dropout(o.dropout).batch_first(true);
}

}  // namespace

std::string_view name_of(Cell cell) {
  constexpr std::array<std::string_view, 3> kNames{"rnn", "lstm", "gru"};
  return kNames.at(static_cast<std::size_t>(cell));
}

void check(const RecurrentOptions& options) {
  require_positive("model.hidden", options.hidden);
  require_positive("model.layers", options.layers);
  require_positive("model.context", options.context);
  require_dropout(options.dropout);
  if (options.dropout > 0 && options.layers == 1)
    throw ConfigError("model.dropout", fmt::format("{}", options.dropout),
                      "it acts between layers, and model.layers is 1", "use 0, or more layers");
}

double flops_per_step(const RecurrentOptions& options, std::int64_t inputs, std::int64_t outputs) {
  const std::int64_t gates = kGates.at(static_cast<std::size_t>(options.cell));
  const std::int64_t first = inputs + options.hidden, later = (options.layers - 1) * 2 * options.hidden;
  return 6.0 * static_cast<double>(gates * options.hidden * (first + later) + outputs * options.hidden);
}

RecurrentLayers::RecurrentLayers(nn::Module& owner, const RecurrentOptions& options, std::int64_t inputs) {
  check(options);
  switch (options.cell) {
    case Cell::kRnn:
      rnn_ = owner.register_module("rnn", nn::RNN(layers_of<nn::RNNOptions>(options, inputs)));
      break;
    case Cell::kLstm:
      lstm_ = owner.register_module("rnn", nn::LSTM(layers_of<nn::LSTMOptions>(options, inputs)));
      break;
    case Cell::kGru:
      gru_ = owner.register_module("rnn", nn::GRU(layers_of<nn::GRUOptions>(options, inputs)));
      break;
  }
}

torch::Tensor RecurrentLayers::forward(const torch::Tensor& x) {
  if (!lstm_.is_empty()) return std::get<0>(lstm_->forward(x));
  return std::get<0>(gru_.is_empty() ? rnn_->forward(x) : gru_->forward(x));
}

RowClassifierImpl::RowClassifierImpl(const RecurrentOptions& options, std::int64_t row, std::int64_t classes)
    : row_(row), layers_(*this, options, row), head_(register_module("head", nn::Linear(options.hidden, classes))) {
  if (row < 1) throw ConfigError("model.row", fmt::format("{}", row), "a row without numbers", "use 1 or more");
  require_classes(classes);
}

torch::Tensor RowClassifierImpl::forward(const torch::Tensor& images) {
  const auto rows = images.flatten(1);
  const auto x = rows.to(head_->weight.scalar_type()).view({rows.size(0), -1, row_});
  return head_->forward(layers_.forward(x).select(1, -1));
}

RecurrentLmImpl::RecurrentLmImpl(const RecurrentOptions& options, std::int64_t vocab)
    : context_(options.context),
      vocab_(vocab),
      embed_(register_module("embed", nn::Embedding(vocab, options.hidden))),
      layers_(*this, options, options.hidden),
      head_(register_module("head", nn::Linear(options.hidden, vocab))) {}

torch::Tensor RecurrentLmImpl::forward(const torch::Tensor& tokens) {
  return head_->forward(layers_.forward(embed_->forward(tokens)));
}

torch::Tensor RecurrentLmImpl::next_token_logits(const torch::Tensor& tokens) {
  return head_->forward(layers_.forward(embed_->forward(tokens)).select(1, -1));
}

}  // namespace zero
