// read_report(): report.json of a run that ended (zero/report/report.h), read for a page.
//
//   RecordedRun run;
//   read_report("runs/a/report.json", run);     // figures, memory, predicted and measured phases, facts; done
//
// The file is untrusted: what has another form than report.h writes counts as missing, and one that is no JSON object
// leaves the run not done, with a note. Local; IoError where it cannot be read.
#pragma once

#include <filesystem>

namespace zero::page {

struct RecordedRun;

void read_report(const std::filesystem::path& path, RecordedRun& run);

}  // namespace zero::page
