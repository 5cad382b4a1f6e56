#include "app/train/machine/torch_memory.h"

#include <utility>

#include "zero/comm/collectives.h"
#include "zero/torch/seam/torch_device.h"

namespace zero {

TorchMemory::TorchMemory(c10::Device place, std::function<std::int64_t()> held,
                         std::optional<LearnedActivations> learned)
    : place_(place), held_(std::move(held)), learned_(std::move(learned)) {}

std::int64_t TorchMemory::held() const {
  return held_ ? held_() : held_by_torch(place_);
}

void TorchMemory::learn(Communicator& comm) {
  if (!learned_) return;
  const std::int64_t most = all_reduce_max(comm, held());
  if (comm.rank() == 0) learned_->took(most);
}

std::int64_t TorchMemory::learn_from_full(const LearnedActivations::Full& full) {
  return learned_ && learned_->lacked(full) ? learned_->bytes() : 0;
}

}  // namespace zero
