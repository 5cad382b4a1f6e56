// DelayedUpdate: ZeRO-Offload's one-step delayed update (ATC'21, section 5.2). The gradient of a step is applied while
// the next one computes, so that states that lie elsewhere come and go behind its backward pass, too.
//
// Step t computes, forward and backward, with parameters that lack the gradient of step t - 1. A unit gets it as soon
// as nobody reads its parameters any more in this step: when its gradient is summed, and the recorded step does not use
// it again. What is left at the end of the step comes in the order of the next forward pass, each unit before it is
// used. Two gradients of each unit are held for that.
//
//   delayed.keep({.present = ..., .scale = ..., .lr = ...});   // step(): not now
//   delayed.begin(reduce_order);                               // before the next step's first gradient
//   delayed.unit_is_free(unit);                                // in its last backward pass; none need be
//   delayed.release(forward_order);                            // step(): the rest
//
// Local.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "zero/engine/update/updater.h"

namespace zero {

class DelayedUpdate {
 public:
  // Of one step's gradients; see Updater::begin_step().
  struct Kept {
    std::vector<bool> present;
    double scale = 1;
    double lr = 0;
  };
  DelayedUpdate(ShardedState& state, Updater& updater) : state_(state), updater_(updater) {}

  // Nothing may wait yet.
  void keep(Kept kept);
  bool waits() const { return kept_.has_value(); }
  // From begin() to release(): units are updated as they become free.
  bool open() const { return open_; }
  // A unit is free: until release() some parameters are updated, and others are not.
  bool started() const { return !free_.empty(); }
  bool is_free(int unit) const { return started() && free_[static_cast<std::size_t>(unit)]; }
  // Nothing of the update before may be left. No-op where nothing waits.
  void begin(std::span<const int> order);
  void unit_is_free(int unit);
  void release(std::span<const int> order);

 private:
  ShardedState& state_;
  Updater& updater_;
  std::optional<Kept> kept_;
  bool open_ = false;
  std::vector<bool> free_;  // by unit; empty while none is
};

}  // namespace zero
