#include "zero/train/image_task.h"

#include <cmath>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/models/cnn.h"
#include "zero/torch/deferred.h"
#include "zero/train/row_task.h"

namespace zero {

std::int64_t side_of(const SampleShape& data) {
  const std::int64_t side = std::llround(std::sqrt(static_cast<double>(data.features / data.channels)));
  if (side * side * data.channels == data.features) return side;
  throw ConfigError("data.path", fmt::format("{} pixels", data.features / data.channels), "not a square image",
                    "use square images, or model.name mlp");
}

std::unique_ptr<Task> make_cnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  const CnnOptions options{.side = side_of(data), .channels = data.channels, .classes = data.classes};
  check(options);
  return std::make_unique<RowTask<Cnn>>(
      deferred([&] { return Cnn(options); }, seed),
      RowTaskOptions{.classifies = true, .flops = flops_per_row(options), .label_smoothing = model.label_smoothing});
}

}  // namespace zero
