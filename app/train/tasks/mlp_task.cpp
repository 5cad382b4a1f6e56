#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/torch/deferred/deferred.h"

#include "app/models/mlp.h"
#include "app/train/tasks/row_task.h"
#include "app/train/tasks/tasks.h"

namespace zero {

std::unique_ptr<Task> make_mlp_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  const MlpOptions options{.sizes = model.sizes};
  check(options);
  const bool classifies = data.classes > 0;
  const std::int64_t inputs = options.sizes.front(), outputs = options.sizes.back();
  const auto refuse_size = [&](std::string_view reason, std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> fitting = options.sizes;
    fitting.front() = first;
    fitting.back() = last;
    throw ConfigError("model.sizes", fmt::format("[{}]", fmt::join(options.sizes, ", ")), reason,
                      fmt::format("for example [{}]", fmt::join(fitting, ", ")));
  };
  const std::int64_t fitting_outputs = classifies ? std::max(outputs, data.classes) : 1;
  if (inputs != data.features)
    refuse_size(fmt::format("the first size is {}, and a row of the data has {}", inputs,
                            format_count(data.features, "number")),
                data.features, fitting_outputs);
  if (classifies && outputs < data.classes)
    refuse_size(fmt::format("the last size is {}, and the data has {} classes", outputs, data.classes), inputs,
                fitting_outputs);
  if (!classifies && outputs != 1)
    refuse_size(fmt::format("the last size is {}, and the target is one number", outputs), inputs, 1);
  return std::make_unique<RowTask<Mlp>>(
      deferred([&] { return Mlp(options); }, seed),
      RowTaskOptions{
          .classifies = classifies, .flops = flops_per_row(options), .label_smoothing = model.label_smoothing});
}

std::optional<SampleShape> mlp_shape(const ModelOptions& model, DataKind data, std::int64_t /*context*/) {
  if (model.sizes.size() < 2) return std::nullopt;
  const bool classifies = data != DataKind::kCsv || model.sizes.back() > 1;
  return SampleShape{.features = model.sizes.front(), .classes = classifies ? model.sizes.back() : 0};
}

}  // namespace zero
