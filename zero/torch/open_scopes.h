// OpenScopes: the scopes that are open around an attached model; the other side of zero/torch/attached_scopes.h.
//
//   OpenScopes scopes(engine, parameters);
//   scopes.gather(units);                       // a GatheredScope begins: every rank holds these units whole
//   scopes.release(units, /*source_rank=*/0);   // it ends, the innermost first: rank 0's values count
//   scopes.beside_training();                   // an operator's uses are no part of a step while this is true
//
// Throws what the engine does, CommError among others.
#pragma once

#include <vector>

#include "zero/engine/engine.h"
#include "zero/torch/attached_parameters.h"

namespace zero {

class OpenScopes {
 public:
  // Both outlive it.
  OpenScopes(Engine& engine, const AttachedParameters& parameters) : engine_(engine), parameters_(parameters) {}

  // Collective: the ends of a GatheredScope. `source_rank`: the rank whose values count; negative: all have the same.
  void gather(const std::vector<int>& units);
  void release(const std::vector<int>& units, int source_rank);
  // Collective: each end of an AveragedScope.
  void exchange_averages() { engine_.states().exchange_averages(); }
  // Local: the ends of a FrozenScope.
  void freeze() { ++num_frozen_; }
  void thaw() { --num_frozen_; }

  // Local, all of these.
  bool gathered() const { return !gathered_.empty(); }
  bool holds(int unit) const;  // gathered, in any scope
  bool frozen() const { return num_frozen_ > 0; }
  bool beside_training() const { return gathered() || frozen(); }
  // Parameters are a copy's own, which trains apart from others (the option `local`), and no AveragedScope is open.
  bool trains_apart() const;
  // Lets go of gathered units without their values: the model ends.
  void drop() { gathered_.clear(); }

 private:
  void begin_writes(const GatheredUnit& whole) const;
  void end_writes(const GatheredUnit& whole) const;
  const GatheredUnit* find(int unit) const;

  Engine& engine_;
  const AttachedParameters& parameters_;
  std::vector<std::vector<GatheredUnit>> gathered_;  // by scope, the innermost last
  int num_frozen_ = 0;
};

}  // namespace zero
