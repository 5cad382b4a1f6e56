// page_json(): the data that the scripts of the page draw, and the keys under which they read it.
//
//   runs[i]: name, done, notes, facts, curves {name: [[steps], [values]]}, events [[step, kind, text]], memory,
//            planned, predicted, measured, balance (plan beside measurement), plan, timeline,
//            ranks (columns [{label, unit, values by rank}])
//   figures[i]: label, texts by run, changes by run, verdicts by run (1 better than the first run, -1 worse)
//   keys[i]: key, values by run, differs
//
// Values only; Local.
#pragma once

#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "app/report/page/recorded_run.h"

namespace zero::page {

nlohmann::ordered_json page_json(std::span<const RecordedRun> runs, std::string_view made);

}  // namespace zero::page
