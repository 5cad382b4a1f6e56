// GradientArrivals: the gradients that came in this backward pass and in this step, and those that a reduction has taken.
//
//   arrivals.arrive(param);
//   if (arrivals.complete(u)) { ...; arrivals.take(u); }       // the unit is being reduced
//   arrivals.end_backward();  ...  arrivals.clear();           // the next pass may bring all again; the step is over
//
// A parameter without elements is part of the step alone: its unit does not wait for it. Local.
#pragma once

#include <cstddef>
#include <vector>

#include "zero/plan/units/unit.h"

namespace zero {

class GradientArrivals {
 public:
  // `units` outlive it.
  GradientArrivals(const std::vector<Unit>& units, std::size_t num_params);

  void arrive(int param);
  // Local. A reduction has what came of the unit in this backward pass.
  void take(int unit);
  void end_backward();
  // Between backward passes: the gradients of these parameters, by parameter, never came in this step.
  void forget(const std::vector<bool>& params);
  void clear();

  int unit_of(int param) const { return addresses_[static_cast<std::size_t>(param)].unit; }
  const Slice& slice(int param) const;
  // In this backward pass, and not taken.
  bool has(int param) const { return arrived_[static_cast<std::size_t>(param)]; }
  // Every parameter of the unit has a gradient in this backward pass, and it is not being reduced yet.
  bool complete(int unit) const;
  // Something arrived in this backward pass that take() has not taken.
  bool open(int unit) const { return at(unit).num > 0; }
  bool reduced(int unit) const { return at(unit).taken; }  // at least once in this backward pass
  // By parameter: which got a gradient on this rank since clear().
  const std::vector<bool>& present() const { return present_; }
  int num_passes() const { return num_passes_; }  // backward passes of this step that are over

 private:
  struct Arrived {
    int num = 0;  // gradients in this backward pass that are not taken
    bool taken = false;
  };
  const Arrived& at(int unit) const { return of_units_[static_cast<std::size_t>(unit)]; }

  const std::vector<Unit>& units_;
  std::vector<SliceAddress> addresses_;
  std::vector<Arrived> of_units_;
  std::vector<bool> arrived_;  // by parameter, in this backward pass and not taken
  std::vector<bool> present_;  // by parameter, in this step
  int num_passes_ = 0;
};

}  // namespace zero
