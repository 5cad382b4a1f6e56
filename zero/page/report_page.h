// The page of one run, or of several: HTML that needs no network and no other file.
//
//   write_file("report.html", report_page(read_runs({"runs/a", "runs/b"}), "2026-03-01 12:00 UTC"));
//
// The runs are in it as JSON, once, and the scripts draw from that. Whatever a run's name, command or configuration
// holds, `</script>` too, stays text. A page refuses by its own policy to load anything. Values only; Local.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "zero/page/recorded_run.h"

namespace zero::page {

// `made`: when, as people read it.
std::string report_page(std::span<const RecordedRun> runs, std::string_view made);

// JSON that stays JSON inside <script>: no `<` is left in it.
std::string json_for_script(const nlohmann::ordered_json& json);
// Text that stays text inside HTML.
std::string html_text(std::string_view text);

}  // namespace zero::page
