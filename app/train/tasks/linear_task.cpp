#include "zero/torch/deferred/deferred.h"

#include "app/models/linear_regression.h"
#include "app/train/tasks/row_task.h"
#include "app/train/tasks/tasks.h"

namespace zero {

std::unique_ptr<Task> make_linear_task(const ModelOptions& /*model*/, const SampleShape& data, std::uint64_t seed) {
  return std::make_unique<RowTask<LinearRegression>>(deferred([&] { return LinearRegression(data.features); }, seed),
                                                     RowTaskOptions{.flops = 6.0 * static_cast<double>(data.features)});
}

}  // namespace zero
