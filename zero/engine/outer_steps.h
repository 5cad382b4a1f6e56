// OuterSteps: decides when copies of the model that train apart are merged, and which units (zero/optim/outer_step.h).
//
//   OuterSteps outer(parts, update, statistics);
//   outer.anchor(0);                          // before the first step the weights become the anchors
//   ... a step ...
//   report.merged = outer.step_done(done, num_updates);
//   outer.merge(done, num_updates);           // all units, now: before a program ends
//
// With fragments, an outer step merges some of the units. With an overlap, a fragment is summed (OuterExchange) while
// the copies take steps. Bits depend only on the number of steps. finish() ends the exchange, so a fragment's new
// anchors can be read after the step that took its differences. A checkpoint holds these anchors and no exchange in
// progress. The number of steps fixes the step after which a result is applied to the weights. No-op if copies do not
// train apart. Collective. Throws IoError, CommError.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "zero/engine/engine_parts.h"
#include "zero/engine/engine_statistics.h"
#include "zero/engine/outer/outer_exchange.h"
#include "zero/engine/update_times.h"

namespace zero {

class OuterSteps {
 public:
  OuterSteps(EngineParts& parts, UpdateTimes& update_times, EngineStatistics& statistics)
      : parts_(parts), update_times_(update_times), statistics_(statistics) {}

  // Makes the weights the anchors. `done`: steps taken or skipped. No-op after the first call.
  void anchor(std::int64_t done);
  // Call it at the end of a step, `num_updates` updates after the run's start. Returns whether an outer step ended with
  // it.
  bool step_done(std::int64_t done, std::int64_t num_updates);
  // Merges the fragments with steps since their last outer step. A fragment whose result is not yet applied to the
  // weights takes its new anchor: its differences already had their outer step.
  void merge(std::int64_t done, std::int64_t num_updates);
  // Waits for the sums in progress, and moves the anchors. Call it between steps.
  void finish();
  // Local. Continues a run after `done` steps.
  void restore(std::int64_t done);

 private:
  void merge_units(const std::vector<int>& units, std::int64_t num_updates);
  void begin_exchange(std::vector<int> units, std::int64_t num_updates);
  void continue_exchange();
  void end_exchange();
  void find_equal_copies();
  std::vector<int> fragment(int number) const;
  std::vector<int> all_units() const { return fragment(-1); }

  EngineParts& parts_;
  UpdateTimes& update_times_;
  EngineStatistics& statistics_;
  std::optional<OuterExchange> exchange_;
  std::vector<bool> apart_;  // by fragment: a step was taken since its last outer step; empty before the first step
  bool restored_ = false;    // a checkpoint was loaded, and no step was taken since
};

}  // namespace zero
