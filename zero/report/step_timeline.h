// StepTimeline: which steps of a run have a timeline, and how the ranks' become one file.
//
//   StepTimeline timeline({.file = "timeline.json", .steps = 3}, num_steps, world, run_folder);
//   attach(module, world, {.timeline = timeline.recorder()});
//   timeline.begin_step(step);  ...  timeline.end_step(step);       // every step, counted from 0
//
// The first step is left out where there are others: it records the trace that the next ones replay. Rank 0 writes the
// file as soon as the last of its steps is over, so that a long run can be looked at while it goes on; a run that is
// stopped before that has none. Ranks of one machine share a clock; those of several begin at 0 each when all have come
// to the first step, and are off by what that takes.
//
// A timeline that nobody asked for is small: of the first step behind the warm-up, or the last of a shorter run. A step
// of more than kMostUnasked spans leaves none; a file that cannot be written is logged, and the run goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "zero/base/timeline.h"
#include "zero/transport/world.h"

namespace zero {

struct TimelineOptions {
  // Spans of all ranks together, each of which may have as many as another: some 3 MB of a file.
  static constexpr std::int64_t kMostUnasked = 1 << 14;

  std::string file;  // in the run folder; empty: no timeline
  std::int64_t steps = 3;
  bool asked = true;  // by the user; else it is of one step
};

class StepTimeline {
 public:
  // `num_steps`: of the run. `world` must outlive it.
  StepTimeline(const TimelineOptions& options, std::int64_t num_steps, World& world,
               const std::filesystem::path& folder);

  // Null where no timeline is asked for.
  Timeline* recorder() const { return timeline_.get(); }
  const std::filesystem::path& path() const { return path_; }

  // Local. The file of a run before; one that cannot be removed is found out when it is written.
  void remove_old() const;

  // Collective. end_step() returns true from the step after which the file was written (on rank 0, where it was asked for:
  // IoError).
  void begin_step(std::int64_t step);
  bool end_step(std::int64_t step);

 private:
  void write(const std::string& trace) const;

  std::filesystem::path path_;
  bool asked_;
  std::int64_t first_ = 0, last_ = 0;
  World& world_;
  std::unique_ptr<Timeline> timeline_;
};

}  // namespace zero
