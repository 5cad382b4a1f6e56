#include "app/train/run/trials/pass_trial.h"

#include <utility>
#include <vector>

#include "zero/base/numbers/median.h"
#include "zero/base/process/clock.h"
#include "zero/torch/attach.h"

#include "app/data/batches.h"
#include "app/train/run/trials/operator_trial.h"

namespace zero {
namespace {

constexpr int kMostPasses = 5;

}  // namespace

PassSeconds time_passes(Task& task, const Dataset& data, const PassTrial& trial) {
  World world = std::move(World::in_process(1).front());
  Engine engine = attach(task.module(), world,
                         {.stage = 0, .optimizer = Sgd{.lr = 0}, .dtype = trial.dtype, .threads = trial.threads});
  const TrainingBatches drawn(data, Order::kSequential, /*seed=*/0, even_grid(trial.samples, 1, 0));
  Batch batch;
  std::vector<double> forward, backward;
  const auto pass = [&] {
    drawn.fill(static_cast<std::int64_t>(forward.size()), batch);
    const double begin = monotonic_seconds();
    const torch::Tensor loss = task.loss(batch);
    const double middle = monotonic_seconds();
    engine.scaled(loss).backward();
    forward.push_back(middle - begin);
    backward.push_back(monotonic_seconds() - middle);
    engine.step();
  };
  const double begin = monotonic_seconds();
  const auto has_time = [&] { return monotonic_seconds() - begin < trial.limit_seconds; };
  with_operators_of(trial.dtype, pass);
  if (has_time()) {
    forward.clear();
    backward.clear();
    do {
      pass();
    } while (has_time() && std::ssize(forward) < kMostPasses);
  }
  engine.abandon();
  return {.forward = median_of(forward), .backward = median_of(backward), .passes = static_cast<int>(forward.size())};
}

std::int64_t trial_state_bytes(std::int64_t num_parameters, DType dtype) {
  const std::int64_t master = dtype == DType::kFloat32 ? 0 : 4;
  return num_parameters * (2 * static_cast<std::int64_t>(size_of(dtype)) + master);
}

}  // namespace zero
