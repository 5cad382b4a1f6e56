// SavedStates: an engine's states as a checkpoint has them, by name and number.
//
//   const SavedStates saved(engine_names, copies);     // {.number = 2, .place = 1}: of three copies that train apart this is 1
//   saved.names()                                      // Manifest::states
//   saved.of_unit(unit, 1).number                      // the number there of the engine's state 1
//   SavedStates::find(manifest.states, engine_names, copies)         // where a load finds each of the engine's states
//
// Where all ranks train one model, these are the engine's states. Where copies of it train apart, "parameter" is what they
// share, the anchor; then comes the outer momentum; then the states of each copy, which only its own ranks write:
// "parameter@0", "exp_avg@0", ..., "parameter@1", ... So whoever knows nothing of copies reads the shared weights.
// Frozen parameters are alike in all copies. Values; Local.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zero/engine/engine.h"
#include "zero/plan/partition.h"
#include "zero/plan/unit.h"

namespace zero {

// Copies that train apart, and this rank's place among them; number 0: the ranks train one model.
struct ApartCopies {
  int number = 0, place = 0;
  static ApartCopies of(Engine& engine);
};

struct SavedState {
  int number = 0;        // among the names
  bool of_copy = false;  // each copy has its own
};

class SavedStates {
 public:
  SavedStates(const std::vector<std::string>& engine_names, const ApartCopies& copies);

  const std::vector<std::string>& names() const { return names_; }
  int num_of_engine() const { return num_own_ + (first_own_ > 0 ? 2 : 0); }  // states
  SavedState of_unit(const Unit& unit, int engine_state) const;

  // By the engine's states, of trained units: their numbers in a checkpoint with the states `saved`; kZeros for one that
  // begins as zeros. Nothing: the checkpoint is of another optimizer. From a checkpoint of copies that trained apart one
  // model takes the shared weights and the moments of copy 0; copy c of as many takes its own weights and moments, and of
  // another number of copies the shared weights and the moments of copy c modulo their number. Copies take from a
  // checkpoint of one model its weights as their anchor, too. Residuals (kOuterResidualState) are taken by as many copies that
  // keep some, and left out by others; where there are none they begin as zeros.
  static constexpr int kZeros = -1;
  static std::optional<std::vector<int>> find(const std::vector<std::string>& saved,
                                              const std::vector<std::string>& engine_names, const ApartCopies& copies);

 private:
  std::vector<std::string> names_;
  int num_own_ = 0;    // states of a copy
  int first_own_ = 0;  // the number of this copy's first one; 0: there are no copies
};

}  // namespace zero
