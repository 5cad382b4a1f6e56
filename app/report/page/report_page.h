// report_page(): the page of one run or several, as HTML that needs no network and no other file.
//
//   write_file("report.html", report_page(read_runs({"runs/a", "runs/b"}), "2026-03-01 12:00 UTC"));
//
// The page contains the runs once, as JSON, and its scripts draw from this. A run's name, command and configuration
// always remain text, even if they contain `</script>`. The page's own policy forbids it to load anything. Values only;
// Local.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "app/report/page/recorded_run.h"

namespace zero::page {

// `made`: the time of writing, for people.
std::string report_page(std::span<const RecordedRun> runs, std::string_view made);

// Returns JSON that stays JSON inside <script>: it has no `<`.
std::string json_for_script(const nlohmann::ordered_json& json);
// Returns text that stays text inside HTML.
std::string html_text(std::string_view text);

// page_json(): the data that the scripts of the page draw, and the keys under which they read it.
//
//   runs[i]: name, done, notes, facts, curves {name: [[steps], [values]]}, events [[step, kind, text]], memory,
//            planned, predicted, measured, balance (plan beside measurement), plan, timeline,
//            ranks (columns [{label, unit, values by rank}])
//   figures[i]: label, texts by run, changes by run, verdicts by run (1 better than the first run, -1 worse)
//   keys[i]: key, values by run, differs
//
// Values only; Local.
nlohmann::ordered_json page_json(std::span<const RecordedRun> runs, std::string_view made);

}  // namespace zero::page
