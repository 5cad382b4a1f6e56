#include "zero/torch/deferred/deferred.h"

#include "app/models/cnn.h"
#include "app/train/tasks/row_task.h"
#include "app/train/tasks/tasks.h"

namespace zero {

std::unique_ptr<Task> make_cnn_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  const CnnOptions options{
      .height = data.height, .width = data.width, .channels = data.channels, .classes = data.classes};
  check(options);
  return std::make_unique<RowTask<Cnn>>(
      deferred([&] { return Cnn(options); }, seed),
      RowTaskOptions{.classifies = true, .flops = flops_per_row(options), .label_smoothing = model.label_smoothing});
}

}  // namespace zero
