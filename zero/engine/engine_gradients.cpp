// Gradients that a user looks at between the last backward pass of a step and step().
#include <algorithm>
#include <cmath>

#include "zero/engine/engine.h"

namespace zero {

// How many gradients a step's is the mean of.
int Engine::num_summed(int passes) const {
  return comm_.world() * (options_.average_micro_batches ? std::max(1, passes) : 1);
}

// All of the step is reduced then. Returns what to multiply sums with.
double Engine::finish_gradients() {
  rethrow_stored();
  end_micro_batch();
  const int passes = executor_.finished_backwards();
  if (passes == 0 || passes < options_.accumulate) {
    throw ConfigError("gradient", "",
                      fmt::format("read after {} of {} backward passes of a step", passes, options_.accumulate),
                      "read it between the last backward pass of a step and step()");
  }
  failing_for_good([&] {
    gatherer_.finish();
    reducer_.finish();
    state_.finish_offloads();
  });
  return 1.0 / num_summed(passes);
}

// An IoError ends the engine, as everywhere.
void Engine::failing_for_good(const std::function<void()>& body) {
  try {
    body();
  } catch (const IoError& error) {
    fail(error);
    std::rethrow_exception(failed_);
  }
}

void Engine::read_gradient(int unit, const std::function<void(std::span<const float>)>& read) {
  const double scale = finish_gradients();
  const Shard own = state_.shard(unit);
  std::vector<float> whole(static_cast<std::size_t>(own.numel * comm_.world()));
  const std::span<float> shard =
      std::span(whole).subspan(static_cast<std::size_t>(own.offset), static_cast<std::size_t>(own.numel));
  failing_for_good([&] { reducer_.read_shard(unit, shard); });
  for (float& value : shard) value = static_cast<float>(value * scale);
  comm_.all_gather(std::as_bytes(shard), std::as_writable_bytes(std::span(whole)), {.unit = unit, .control = true})
      .wait();
  comm_.drain();
  read(whole);
}

std::vector<double> Engine::gradient_norms() {
  const double scale = finish_gradients();
  const std::size_t num_params = specs_.size();
  std::vector<double> all(num_params * static_cast<std::size_t>(comm_.world()), 0);
  const std::span<double> mine =
      std::span(all).subspan(num_params * static_cast<std::size_t>(comm_.rank()), num_params);
  for (const Unit& unit : units()) {
    if (!unit.trainable) continue;
    const Shard own = state_.shard(unit.index);
    std::vector<float> shard(static_cast<std::size_t>(own.numel));
    failing_for_good([&] { reducer_.read_shard(unit.index, shard); });
    for (const Slice& slice : unit.slices) {
      const SlicePart part = overlap(slice, own);
      for (std::int64_t i = part.offset; i < part.offset + part.numel; ++i) {
        const double value = shard[static_cast<std::size_t>(i - own.offset)];
        mine[static_cast<std::size_t>(slice.param)] += value * value;
      }
    }
  }
  comm_.all_gather(std::as_bytes(mine), std::as_writable_bytes(std::span(all)), {.control = true}).wait();
  comm_.drain();
  std::vector<double> norms(num_params, 0);
  for (std::size_t i = 0; i < all.size(); ++i) norms[i % num_params] += all[i];
  for (double& norm : norms) norm = std::sqrt(norm) * scale;
  return norms;
}

}  // namespace zero
