// read_report(): reads report.json of a run that ended (app/report/report.h), for a page.
//
//   RecordedRun run;
//   read_report("runs/a/report.json", run);     // sets figures, memory, predicted and measured phases, facts, done
//
// The file is untrusted. Values of another form than report.h writes count as missing. If the file is no JSON object,
// the run is not done, and has a note. Local; IoError if the file cannot be read.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace zero::page {

struct RecordedRun;

void read_report(const std::filesystem::path& path, RecordedRun& run);

// Returns "2 ranks", or "1 server and 3 workers": `world` of a report.json counts ranks that hold states, so here the
// servers. Empty if the report lacks them.
std::string ranks_in_words(const nlohmann::json& report);

}  // namespace zero::page
