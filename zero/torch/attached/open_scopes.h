// OpenScopes: the scopes that are open around an attached model. zero/torch/attached_scopes.h opens and closes them.
//
//   OpenScopes scopes(engine, parameters);
//   scopes.gather(units);                       // a GatheredScope begins: every rank holds these units whole
//   scopes.release(units, /*source_rank=*/0);   // it ends, the innermost first: rank 0's values count
//   scopes.beside_training();                   // true: operators now belong to no training step
//
// Throws what the engine throws, for example CommError.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "zero/engine/rank_engine.h"
#include "zero/torch/attached/attached_parameters.h"

namespace zero {

class OpenScopes {
 public:
  // Both arguments must outlive the object.
  OpenScopes(RankEngine& engine, const AttachedParameters& parameters) : engine_(engine), parameters_(parameters) {}

  // Collective. Begin and end a GatheredScope. `source_rank`: the rank whose values count; negative: all ranks have the
  // same values.
  void gather(const std::vector<int>& units);
  void release(const std::vector<int>& units, int source_rank);
  // Collective. Begins or ends an AveragedScope.
  void exchange_averages() { engine_.states().exchange_averages(); }
  // Local. Keeps the end of a scope that an exception leaves, because other ranks may not have left it.
  void leave(std::function<void()> end) { left_.push_back(std::move(end)); }
  // Collective if an exception has left scopes, else Local. Ends these scopes, the innermost first.
  void end_left() {
    if (!left_.empty()) [[unlikely]]
      end_all_left();
  }
  // Local. Begin and end a FrozenScope.
  void freeze() { ++num_frozen_; }
  void thaw() { --num_frozen_; }

  // All functions from here on are Local.
  bool gathered() const { return !gathered_.empty(); }
  bool holds(int unit) const;  // true if a scope has gathered the unit
  bool frozen() const { return num_frozen_ > 0; }
  bool beside_training() const { return gathered() || frozen(); }
  // True if the parameters belong to a copy that trains apart from others (the option `local`) and no AveragedScope is
  // open.
  bool trains_apart() const;
  // Releases gathered units without keeping their values, because the model ends.
  void drop();

 private:
  const std::vector<Slice>& slices_of(int unit) const;
  void end_scope(int unit) const;
  void end_all_left();
  void begin_writes(const GatheredUnit& whole) const;
  void end_writes(const GatheredUnit& whole) const;
  const GatheredUnit* find(int unit) const;

  RankEngine& engine_;
  const AttachedParameters& parameters_;
  std::vector<std::vector<GatheredUnit>> gathered_;  // gathered units of each scope, the innermost scope last
  std::vector<std::function<void()>> left_;          // ends of the scopes that exceptions left, the innermost first
  int num_frozen_ = 0;
};

}  // namespace zero
