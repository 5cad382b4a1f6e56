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

}  // namespace zero::page
