#include "zero/train/mlp_task.h"

#include <string>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/models/mlp.h"
#include "zero/torch/deferred.h"
#include "zero/train/row_task.h"

namespace zero {

std::unique_ptr<Task> make_mlp_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  const MlpOptions options{.sizes = model.sizes};
  check(options);
  const bool classifies = data.classes > 0;
  const std::int64_t inputs = options.sizes.front(), outputs = options.sizes.back();
  const auto refuse_size = [&](std::int64_t size, std::string reason) {
    throw ConfigError("model.sizes", fmt::format("{}", size), reason,
                      "the first size is the data's, the last its classes");
  };
  if (inputs != data.features) refuse_size(inputs, fmt::format("a row of the data has {} numbers", data.features));
  if (classifies && outputs < data.classes) refuse_size(outputs, fmt::format("the data has {} classes", data.classes));
  if (!classifies && outputs != 1) refuse_size(outputs, "the target is one number");
  return std::make_unique<RowTask<Mlp>>(
      deferred([&] { return Mlp(options); }, seed),
      RowTaskOptions{
          .classifies = classifies, .flops = flops_per_row(options), .label_smoothing = model.label_smoothing});
}

std::optional<SampleShape> mlp_shape(const ModelOptions& model, DataKind data, std::int64_t /*context*/) {
  if (model.sizes.size() < 2) return std::nullopt;
  return SampleShape{.features = model.sizes.front(),
                     .classes = data == DataKind::kMnist || data == DataKind::kImages ? model.sizes.back() : 0};
}

}  // namespace zero
