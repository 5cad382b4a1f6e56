#include "zero/torch/pipeline/pass/step_generator.h"

#include <cstddef>
#include <span>

#include "zero/base/error/check.h"
#include "zero/comm/collectives.h"
#include "zero/torch/deferred/surroundings.h"

namespace zero {

StepGenerator::StepGenerator(bool draws, int micros, Communicator& line) {
  if (!draws) return;
  starts_.resize(static_cast<std::size_t>(micros) + 1);
  at::Tensor& first = starts_.front();
  first = generator_state();
  broadcast(line, {static_cast<std::byte*>(first.mutable_data_ptr()), first.nbytes()}, 0, {.control = true});
}

void StepGenerator::begin(int micro) {
  if (starts_.empty()) return;
  const at::Tensor& start = starts_[static_cast<std::size_t>(micro)];
  ZERO_CHECK(start.defined(), "micro-batch {} begins before the one before it", micro);
  set_generator_state(start, kOnCpu);
}

void StepGenerator::end(int micro) {
  if (starts_.empty()) return;
  at::Tensor& next = starts_[static_cast<std::size_t>(micro) + 1];
  if (!next.defined()) next = generator_state();
}

void StepGenerator::end_step() {
  if (!starts_.empty()) set_generator_state(starts_.back(), kOnCpu);
}

}  // namespace zero
