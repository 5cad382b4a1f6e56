// TorchMemory: the bytes of a run's device that libtorch holds, and their record for the next run of the model.
//
//   TorchMemory memory(place, {}, LearnedActivations(work));
//   host.beside_on_device = memory.expected();     // 0: not known
//   memory.learn(comm);                            // steps have succeeded
//   use.next_run_leaves = memory.learn_from_full({.torch = memory.held(), .asked = asked, .held = held});
//
// Local, unless a function says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <c10/core/Device.h>

#include "zero/comm/communicator.h"

#include "app/train/machine/learned_activations.h"

namespace zero {

class TorchMemory {
 public:
  // `held`: replaces held_by_torch(place) in tests; empty: nothing does. `learned`: empty if no budget depends on these
  // bytes, because a budget is given or the device is main memory.
  TorchMemory(c10::Device place, std::function<std::int64_t()> held, std::optional<LearnedActivations> learned);

  // Returns the bytes that libtorch holds now; 0 on the CPU.
  std::int64_t held() const;
  // Returns the bytes that earlier runs recorded; 0: not known.
  std::int64_t expected() const { return learned_ ? learned_->bytes() : 0; }
  // Collective. Records the most bytes that a rank holds. No-op if no budget depends on them.
  void learn(Communicator& comm);
  // Records that the device was full. Returns the bytes that the next run leaves to libtorch; 0: no more than this run.
  std::int64_t learn_from_full(const LearnedActivations::Full& full);

 private:
  c10::Device place_;
  std::function<std::int64_t()> held_;
  std::optional<LearnedActivations> learned_;
};

}  // namespace zero
