// to_chrome_trace(): converts ranks' timelines to JSON for chrome://tracing and https://ui.perfetto.dev.
//
//   const std::array ranks{RankTimeline{.spans = timeline.spans(), .origin = timeline.origin()}};
//   write_file("timeline.json", to_chrome_trace(ranks, timeline.unit_names()));
//
// A rank is a process (pid), and a row is one of its threads (tid). Viewers need a thread's spans to be nested or to
// follow each other. So concurrent transfers are spread over several lanes: "disk read", "disk read 2". Empty rows are
// left out. The name of a pipeline's pass ends with its micro-batch and section: "forward 3.1". Times are microseconds
// since the rank's origin. Local.
#pragma once

#include <span>
#include <string>

#include "zero/base/process/timeline.h"

namespace zero {

struct RankTimeline {
  std::span<const TimelineSpan> spans;
  double origin = 0;  // time that is shown as 0
  std::int64_t num_lost = 0;
  std::span<const std::string> unit_names{};  // of this rank; empty: those of all ranks
};

std::string to_chrome_trace(std::span<const RankTimeline> ranks, std::span<const std::string> unit_names);

}  // namespace zero
