// DelayedUpdate: ZeRO-Offload's one-step delayed update (ATC'21, section 5.2). The gradient of a step is applied while
// the next one computes, so that states that lie elsewhere come and go behind a whole step, not behind its forward
// pass.
//
// Step t computes, forward and backward, with parameters that lack the gradient of step t - 1. A unit gets it as soon
// as nobody reads its parameters any more, when its gradient of step t is summed; what is left at the end of the step
// comes in the order of the next forward pass, each unit before it is used. Two gradients of each unit are held for
// that.
//
//   delayed.keep({.present = ..., .scale = ..., .lr = ...});   // step(): not now
//   delayed.begin(reduce_order);                               // the next step's first backward pass begins
//   delayed.unit_is_free(unit);                                // in its last one, as sums are complete
//   delayed.release(forward_order);                            // step(): the rest
//
// Local.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "zero/engine/updater.h"

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

  void keep(Kept kept) { kept_ = std::move(kept); }
  bool waits() const { return kept_.has_value(); }
  // Units are being updated as they become free: from begin() to release().
  bool open() const { return open_; }
  // Nothing of the update before may be left. No-op where nothing waits.
  void begin(std::span<const int> order);
  void unit_is_free(int unit);
  void release(std::span<const int> order);

 private:
  ShardedState& state_;
  Updater& updater_;
  std::optional<Kept> kept_;
  bool open_ = false;
};

}  // namespace zero
