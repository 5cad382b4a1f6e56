// SavedStates: the names and numbers of an engine's states in a checkpoint.
//
//   const SavedStates saved(engine_names, copies);     // {.number = 2, .place = 1}: copy 1 of two that train apart
//   saved.names()                                      // Manifest::states
//   saved.of_unit(unit, 1).number                      // the checkpoint's number of the engine's state 1
//   SavedStates::find(manifest.states, engine_names, copies)         // the checkpoint's number of each engine state
//
// If all ranks train one model, these are the engine's states. If copies train apart, "parameter" is their shared
// anchor, and the outer momentum follows. Then the states of each copy follow, which only its own ranks write:
// "parameter@0", "exp_avg@0", ..., "parameter@1", ... So a reader that knows nothing of copies reads the shared
// weights. Frozen parameters are the same in all copies. Values; Local.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zero/engine/rank_engine.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/unit.h"

namespace zero {

// The number of copies that train apart, and this rank's place among them. Number 0: the ranks train one model.
struct ApartCopies {
  int number = 0, place = 0;
  static ApartCopies of(RankEngine& engine);
};

struct SavedState {
  int number = 0;        // index into the names
  bool of_copy = false;  // true: each copy has its own
};

class SavedStates {
 public:
  SavedStates(const std::vector<std::string>& engine_names, const ApartCopies& copies);

  const std::vector<std::string>& names() const { return names_; }
  int num_of_engine() const { return num_own_ + (first_own_ > 0 ? 2 : 0); }  // states
  SavedState of_unit(const Unit& unit, int engine_state) const;

  // Returns, for each engine state of trained units, its number in a checkpoint with the states `saved`; kZeros for a
  // state that begins as zeros. Returns nothing if the checkpoint is of another optimizer.
  // - One model takes from a checkpoint of copies the shared weights, and the moments of copy 0.
  // - Copy c takes from a checkpoint of as many copies its own weights and moments.
  // - From another number of copies, it takes the shared weights, and the moments of copy c modulo that number.
  // - Copies take from a checkpoint of one model its weights, also as their anchor.
  // - Copies that keep residuals (kOuterResidualState) take them from as many copies; others ignore them. If there are
  //   none, they begin as zeros.
  static constexpr int kZeros = -1;
  static std::optional<std::vector<int>> find(const std::vector<std::string>& saved,
                                              const std::vector<std::string>& engine_names, const ApartCopies& copies);

 private:
  std::vector<std::string> names_;
  int num_own_ = 0;    // states of one copy
  int first_own_ = 0;  // the number of this copy's first state; 0: no copies
};

}  // namespace zero
