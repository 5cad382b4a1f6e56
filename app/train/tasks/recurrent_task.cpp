#include "zero/base/error/error.h"
#include "zero/torch/deferred/deferred.h"

#include "app/models/recurrent.h"
#include "app/train/tasks/row_task.h"
#include "app/train/tasks/tasks.h"
#include "app/train/tasks/token_model.h"
#include "app/train/tasks/token_task.h"

namespace zero {
namespace {

constexpr std::int64_t kUsualHidden = 128;

std::unique_ptr<Task> make_language_model(const RecurrentOptions& options, const ModelOptions& model,
                                          const SampleShape& data, std::uint64_t seed) {
  require_context(model, data);
  const std::int64_t vocab = vocab_of(model, data.classes);
  return std::make_unique<TokenTask<RecurrentLm>>(
      deferred([&] { return RecurrentLm(options, vocab); }, seed),
      TokenTaskOptions{.context = data.context,
                       .flops_per_token = flops_per_step(options, options.hidden, vocab),
                       .label_smoothing = model.label_smoothing});
}

std::unique_ptr<Task> make_row_reader(const RecurrentOptions& options, const ModelOptions& model,
                                      const SampleShape& data, std::uint64_t seed) {
  if (data.channels != 1)
    throw ConfigError("data.channels", fmt::format("{}", data.channels), "this model reads the rows of grey images",
                      "use 1, or model.name cnn or mlp");
  const double flops = static_cast<double>(data.height) * flops_per_step(options, data.width, 0) +
                       6.0 * static_cast<double>(options.hidden * data.classes);
  return std::make_unique<RowTask<RowClassifier>>(
      deferred([&] { return RowClassifier(options, data.width, data.classes); }, seed),
      RowTaskOptions{.classifies = true, .flops = flops, .label_smoothing = model.label_smoothing});
}

std::unique_ptr<Task> make_recurrent_task(Cell cell, const ModelOptions& model, const SampleShape& data,
                                          std::uint64_t seed) {
  const RecurrentOptions options{.cell = cell,
                                 .hidden = model.hidden == 0 ? kUsualHidden : model.hidden,
                                 .layers = model.layers,
                                 .dropout = model.dropout,
                                 .context = model.context};
  check(options);
  return data.context != 0 ? make_language_model(options, model, data, seed)
                           : make_row_reader(options, model, data, seed);
}

}  // namespace

std::unique_ptr<Task> make_rnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  return make_recurrent_task(Cell::kRnn, model, data, seed);
}
std::unique_ptr<Task> make_lstm_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  return make_recurrent_task(Cell::kLstm, model, data, seed);
}
std::unique_ptr<Task> make_gru_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  return make_recurrent_task(Cell::kGru, model, data, seed);
}

}  // namespace zero
