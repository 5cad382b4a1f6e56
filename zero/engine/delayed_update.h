// DelayedUpdate: ZeRO-Offload's one-step delayed update (ATC'21, section 5.2).
//
//   delayed.keep({.present = ..., .scale = ..., .lr = ...});   // step(): the update waits
//   delayed.begin(reduce_order);                               // before the next step's first gradient
//   delayed.unit_is_free(unit);                                // in its last backward pass; optional for each unit
//   delayed.release(forward_order);                            // step(): the remaining units
//
// The gradient of a step is applied while the next step computes. The next backward pass then also overlaps the
// transfers of states that are off the device. Step t computes with parameters that lack the gradient of step t - 1. A
// unit is free when its gradient is summed and the recorded step does not use the unit again. release() updates the
// remaining units in the order of the next forward pass, each before it is used. Two gradients of each unit are held
// meanwhile. Local.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "zero/engine/update/updater.h"

namespace zero {

class DelayedUpdate {
 public:
  // Gradients of one step; see Updater::begin_step().
  struct Kept {
    std::vector<bool> present;
    double scale = 1;
    StepRates lr;
  };
  DelayedUpdate(ShardedState& state, Updater& updater) : state_(state), updater_(updater) {}

  // Keeps the gradients for the next step. No other gradients may be waiting.
  void keep(Kept kept);
  bool waits() const { return kept_.has_value(); }
  // Returns true from begin() to release(): units are updated as they become free.
  bool open() const { return open_; }
  // Returns true from the first free unit to release(): some parameters are updated, and others are not.
  bool started() const { return !free_.empty(); }
  bool is_free(int unit) const { return started() && free_[static_cast<std::size_t>(unit)]; }
  // Begins the waiting update. The update before must have ended. No-op if none waits.
  void begin(std::span<const int> order);
  void unit_is_free(int unit);
  void release(std::span<const int> order);

 private:
  ShardedState& state_;
  Updater& updater_;
  std::optional<Kept> kept_;
  bool open_ = false;
  std::vector<bool> free_;  // by unit; empty until a unit is free
};

}  // namespace zero
