// to_chrome_trace(): the timelines of ranks as JSON that chrome://tracing and https://ui.perfetto.dev open.
//
//   const std::array ranks{RankTimeline{.spans = timeline.spans(), .origin = timeline.origin()}};
//   write_file("timeline.json", to_chrome_trace(ranks, timeline.unit_names()));
//
// A rank is a process (pid), a row a thread of it (tid). In a viewer the spans of a thread must be nested or follow
// each other. So transfers in flight together are spread over several lanes: "disk read", "disk read 2". Rows that
// stayed empty are left out. Times are microseconds since the rank's origin.
//
// Local.
#pragma once

#include <span>
#include <string>

#include "zero/base/timeline.h"

namespace zero {

struct RankTimeline {
  std::span<const TimelineSpan> spans;
  double origin = 0;  // the instant that is shown as 0
  std::int64_t num_lost = 0;
};

std::string to_chrome_trace(std::span<const RankTimeline> ranks, std::span<const std::string> unit_names);

}  // namespace zero
