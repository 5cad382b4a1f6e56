#include "zero/train/run_end.h"

#include <fmt/format.h>

#include "zero/checkpoint/transformers_config.h"

namespace zero {

bool describe_weights(const RunFolder& folder, Task& task, DType dtype) {
  Gpt2* const model = task.language_model();
  if (model == nullptr) return true;
  const Gpt2Options& options = (*model)->options();
  return write_transformers_config(folder.path(), {.layers = options.layers,
                                                   .width = options.width,
                                                   .heads = options.heads,
                                                   .context = options.context,
                                                   .vocab = options.vocab,
                                                   .dropout = options.dropout,
                                                   .dtype = dtype});
}

std::string where_training_is(const RunFolder& folder, const RunCheckpoints& checkpoints, bool saves,
                              bool weights_written, std::int64_t steps) {
  if (weights_written) return fmt::format("its weights are in {}", folder.model().string());
  if (checkpoints.step_on_disk() == steps)
    return fmt::format(
        "it is saved in {}: the same command ends the run where there is room, and `zero export {} -o FOLDER` writes "
        "its weights elsewhere",
        folder.checkpoints().path_of(steps).string(), folder.path().string());
  return fmt::format("no checkpoint holds its last step ({})", saves ? "the last save failed" : "checkpoint.every = 0");
}

}  // namespace zero
