// OuterSteps: when copies of the model that train apart are merged, and of which units (zero/optim/outer_step.h). With
// fragments a part of the units at a time; with an overlap the sums of a fragment are on their way (OuterFlight) while the
// copies take steps.
//
//   OuterSteps outer(parts, update, statistics);
//   outer.anchor(0);                          // before the first step the weights become the anchors
//   ... a step ...
//   report.merged = outer.step_done(done, num_updates);
//   outer.merge(num_updates);                 // all units, now: before a program ends
//
// Bits depend on the number of steps alone: states that are read show a fragment's new anchors from the step on after which
// its differences were taken, for finish() ends the exchange. What a checkpoint has is that, and nothing is on its way in it;
// the step after which a result goes into the weights follows from the number of steps.
//
// All of it does nothing where the model is not trained apart. Collective. Throws IoError, CommError.
#pragma once

#include <cstdint>
#include <optional>

#include "zero/engine/engine_parts.h"
#include "zero/engine/engine_statistics.h"
#include "zero/engine/outer/outer_flight.h"
#include "zero/engine/step_update.h"

namespace zero {

class OuterSteps {
 public:
  OuterSteps(EngineParts& parts, StepUpdate& update, EngineStatistics& statistics)
      : parts_(parts), update_(update), statistics_(statistics) {}

  // `done`: steps that were taken or skipped. No-op after the first.
  void anchor(std::int64_t done);
  // At the end of a step, `num_updates` updates after the run's start. Whether an outer step ended with it.
  bool step_done(std::int64_t done, std::int64_t num_updates);
  // Should a step have been taken since the last outer step of all units.
  void merge(std::int64_t num_updates);
  // The sums that are on their way arrive, and the anchors move. Between steps.
  void finish();
  // Local. A run that goes on after so many steps.
  void restore(std::int64_t done);

 private:
  void merge_units(const std::vector<int>& units, std::int64_t num_updates);
  void take_off(std::vector<int> units, std::int64_t num_updates);
  void fly();
  void land();
  std::vector<int> fragment(int number) const;
  std::vector<int> all_units() const { return fragment(-1); }

  EngineParts& parts_;
  StepUpdate& update_;
  EngineStatistics& statistics_;
  std::optional<OuterFlight> flight_;
  bool apart_ = false;  // copies are no longer what the last outer step of all units made them
};

}  // namespace zero
