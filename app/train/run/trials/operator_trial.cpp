#include "app/train/run/trials/operator_trial.h"

#include <string>

#include <fmt/format.h>

#include <c10/util/Exception.h>

#include "zero/base/error/error.h"

#include "app/data/batches.h"

namespace zero {

void try_operators(Run& run) {
  if (run.job.attach.dtype != DType::kFloat16) return;
  const TrainingBatches drawn(*run.data.corpus.train, run.job.data.order, run.job.train.seed,
                              even_grid(1, run.ranks.world.size(), run.ranks.world.rank()));
  Batch batch;
  drawn.fill(0, batch);
  const FrozenScope no_step = run.model.engine->frozen();
  with_operators_of(DType::kFloat16, [&] { run.model.task->loss(batch).backward(); });
}

void with_operators_of(DType dtype, const std::function<void()>& pass) {
  try {
    pass();
  } catch (const c10::NotImplementedError& error) {
    if (dtype == DType::kFloat32) throw;
    const std::string said = error.what_without_backtrace();
    throw ConfigError("train.dtype", std::string(name_of(dtype)),
                      fmt::format("libtorch has no such operator for it here: {}", said.substr(0, said.find('\n'))),
                      "use bf16 or fp32");
  }
}

}  // namespace zero
