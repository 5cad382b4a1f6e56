// Timeline: the work of a rank as spans of time, and the file that chrome://tracing opens.
//
//   zero::Timeline timeline;
//   auto engine = zero::attach(*model, world, {.stage = 3, .timeline = &timeline});
//   ... = zero::to_chrome_trace(ranks, timeline.unit_names());
#pragma once

#include "zero/base/process/chrome_trace.h"
#include "zero/base/process/timeline.h"
