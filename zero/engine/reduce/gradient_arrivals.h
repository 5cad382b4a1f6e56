// GradientArrivals: the gradients that arrived in this backward pass and step, and those that a reduction has taken.
//
//   arrivals.arrive(param);
//   if (arrivals.complete(u)) { ...; arrivals.take(u); }       // the unit is being reduced
//   arrivals.end_backward();  ...  arrivals.clear();           // the next pass may bring all again; the step is over
//
// A parameter without elements counts only for the step: its unit does not wait for it. Local.
#pragma once

#include <cstddef>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/units/unit.h"

namespace zero {

class GradientArrivals {
 public:
  // `units` must outlive it.
  GradientArrivals(const std::vector<Unit>& units, std::size_t num_params);

  void arrive(int param);
  // Marks the unit's gradients of this backward pass as taken by a reduction.
  void take(int unit);
  void end_backward();
  // Forgets the gradients of these parameters, by parameter, in this step. Call it between backward passes.
  void forget(const std::vector<bool>& params);
  void clear();

  int unit_of(int param) const { return addresses_[static_cast<std::size_t>(param)].unit; }
  const Slice& slice(int param) const;
  // Returns whether a gradient arrived in this backward pass, and is not taken.
  bool has(int param) const { return arrived_[static_cast<std::size_t>(param)]; }
  // Returns whether every parameter of the unit has a gradient in this backward pass, and no reduction has taken it.
  bool complete(int unit) const;
  // Returns whether the unit has a gradient of this backward pass that is not taken.
  bool open(int unit) const { return at(unit).num > 0; }
  bool reduced(int unit) const { return at(unit).taken; }  // at least once in this backward pass
  // Returns, by parameter, whether this rank computed a gradient since clear().
  const std::vector<bool>& present() const { return present_; }
  int num_passes() const { return num_passes_; }  // finished backward passes of this step

 private:
  struct Arrived {
    int num = 0;  // untaken gradients of this backward pass
    bool taken = false;
  };
  const Arrived& at(int unit) const { return of_units_[static_cast<std::size_t>(unit)]; }

  const std::vector<Unit>& units_;
  std::vector<SliceAddress> addresses_;
  std::vector<Arrived> of_units_;
  std::vector<bool> arrived_;  // by parameter, in this backward pass and untaken
  std::vector<bool> present_;  // by parameter, in this step
  int num_passes_ = 0;
};

// leaves_gradients(): returns whether any rank has gradients of a step that are not dropped.
//
//   if (leaves_gradients(comm, dropped, arrivals.present())) reducer.drop(dropped);     // else the step begins again
//
// `dropped`, `present`: by parameter. Collective, and a barrier: when it returns, every rank has finished its begun
// sums. Throws ConfigError on every rank if the ranks drop different gradients.
bool leaves_gradients(Communicator& comm, const std::vector<bool>& dropped, const std::vector<bool>& present);

}  // namespace zero
