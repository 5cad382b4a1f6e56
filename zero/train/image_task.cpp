#include "zero/train/image_task.h"

#include <cmath>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/models/cnn.h"
#include "zero/models/recurrent.h"
#include "zero/torch/deferred.h"
#include "zero/train/row_task.h"

namespace zero {
namespace {

std::int64_t side_of(const SampleShape& data) {
  const std::int64_t side = std::llround(std::sqrt(static_cast<double>(data.features)));
  if (side * side == data.features) return side;
  throw ConfigError("data.path", fmt::format("{} pixels", data.features), "not a square image",
                    "use square images of one channel, or model.name mlp");
}

std::unique_ptr<Task> make_row_reader(Cell cell, const ModelOptions& model, const SampleShape& data,
                                      std::uint64_t seed) {
  const RecurrentOptions options{
      .cell = cell, .hidden = model.hidden, .layers = model.layers, .dropout = model.dropout};
  check(options);
  const std::int64_t side = side_of(data);
  const double flops = static_cast<double>(side) * flops_per_step(options, side, 0) +
                       6.0 * static_cast<double>(options.hidden * data.classes);
  return std::make_unique<RowTask<RowClassifier>>(
      deferred([&] { return RowClassifier(options, side, data.classes); }, seed),
      RowTaskOptions{.classifies = true, .flops = flops});
}

}  // namespace

std::unique_ptr<Task> make_cnn_task(const ModelOptions& /*model*/, const SampleShape& data, std::uint64_t seed) {
  const CnnOptions options{.side = side_of(data), .classes = data.classes};
  check(options);
  return std::make_unique<RowTask<Cnn>>(deferred([&] { return Cnn(options); }, seed),
                                        RowTaskOptions{.classifies = true, .flops = flops_per_row(options)});
}

std::unique_ptr<Task> make_rnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  return make_row_reader(Cell::kRnn, model, data, seed);
}
std::unique_ptr<Task> make_lstm_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  return make_row_reader(Cell::kLstm, model, data, seed);
}
std::unique_ptr<Task> make_gru_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  return make_row_reader(Cell::kGru, model, data, seed);
}

std::optional<SampleShape> image_shape(const ModelOptions& /*model*/, DataKind /*data*/, std::int64_t /*context*/) {
  return std::nullopt;
}

}  // namespace zero
