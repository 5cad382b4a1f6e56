// StepTimeline: which steps of a run have a timeline, and how the timelines of all ranks become one file.
//
//   StepTimeline timeline({.file = "timeline.json", .steps = 3}, num_steps, world, run_folder);
//   attach(module, world, {.timeline = timeline.recorder()});
//   timeline.expect(num_steps - step);                              // of a resumed run, before its first step
//   timeline.begin_step(step);  ...  timeline.end_step(step);       // every step, counted from 0
//
// If there are several steps, the first is left out: it records the trace that the others replay. Rank 0 writes the
// file after the last recorded step, so it can be viewed while the run continues. A run that stops earlier has no file.
// Ranks of one machine share a clock. Clocks of several machines begin at 0 after all ranks have reached the first
// recorded step, and differ by the time that this takes. A timeline that the user did not ask for has one step: the
// first after the warm-up, or the last of a shorter run. If that step has more than kMostUnasked spans, there is no
// timeline. If its file cannot be written, this is logged and the run continues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "zero/base/process/timeline.h"
#include "zero/comm/transport/world.h"

namespace zero {

struct TimelineOptions {
  // Most spans of all ranks together, shared equally by the ranks: a file of about 3 MB.
  static constexpr std::int64_t kMostUnasked = 1 << 14;

  std::string file;  // in the run folder; empty: no timeline
  std::int64_t steps = 3;
  bool asked = true;  // by the user; false: one step only
};

class StepTimeline {
 public:
  // `num_steps`: steps of this process. `world` must outlive it.
  StepTimeline(const TimelineOptions& options, std::int64_t num_steps, World& world,
               const std::filesystem::path& folder);

  // Returns null if there is no timeline.
  Timeline* recorder() const { return timeline_.get(); }
  const std::filesystem::path& path() const { return path_; }

  // Local, with the same number on all ranks, before the first step: this process makes `num_steps` steps.
  void expect(std::int64_t num_steps);

  // Local. Removes the file of an earlier run, if a step of this process will have a timeline. An error is found later,
  // when the file is written.
  void remove_old() const;

  // Collective. end_step() returns true at the step after which the file was written. Throws IoError on rank 0 if it
  // cannot be written, and the user asked for it.
  void begin_step(std::int64_t step);
  bool end_step(std::int64_t step);

 private:
  void write(const std::string& trace) const;

  std::filesystem::path path_;
  bool asked_;
  std::int64_t most_steps_;
  std::int64_t first_ = 0, last_ = 0;
  World& world_;
  std::unique_ptr<Timeline> timeline_;
};

}  // namespace zero
