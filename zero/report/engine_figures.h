// What an engine says of itself, put where the report of a run wants it.
//
//   add_figures(engine.report(), rank);      // what differs between ranks
//   add_figures(engine.report(), report);    // what does not
//
// Local; values only.
#pragma once

#include "zero/engine/step_report.h"
#include "zero/report/report.h"

namespace zero {

void add_figures(const EngineReport& engine, RankReport& rank);
void add_figures(const EngineReport& engine, RunReport& run);

}  // namespace zero
