#include <ctime>
#include <filesystem>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"

#include "app/cli/command/flags.h"
#include "app/cli/verbs.h"
#include "app/report/page/comparison.h"
#include "app/report/page/report_page.h"

namespace zero::cli {

int run_report(Arguments arguments) {
  CLI::App app(
      "Writes one HTML page of one or more runs: curves, memory, timeline of a step, plan and measurements, "
      "configuration.",
      "zero report");
  std::vector<std::string> folders;
  std::string file = "report.html";
  app.add_option("RUN", folders, "folders of runs: done, active, or ended early")->required();
  app.add_option("-o,--output", file, "file of the page; default: report.html")->default_str("FILE");
  if (!parse_flags(app, arguments)) return 0;
  require_output_file("-o", file, "a page of zero report", {"<!DOCTYPE html>"});
  const auto runs = page::read_runs(folders);
  const std::string html =
      page::report_page(runs, fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr))));
  write_file(file, html, {.durable = false});
  for (const auto& run : runs)
    for (const auto& note : run.notes) fmt::print("{}: {}\n", run.name, note);
  fmt::print("{}: {} {}, {}\n", file, runs.size(), runs.size() == 1 ? "run" : "runs",
             format_bytes(static_cast<std::int64_t>(html.size())));
  return 0;
}

int run_compare(Arguments arguments) {
  CLI::App app("Compares runs: a column for each run, with its change from the first run, and the keys that differ.",
               "zero compare");
  std::vector<std::string> folders;
  bool json = false;
  app.add_option("RUN", folders, "folders of runs: done, active, or ended early")->required();
  app.add_flag("--json", json, "print one JSON object");
  if (!parse_flags(app, arguments)) return 0;
  const auto runs = page::read_runs(folders);
  const page::Comparison comparison = page::compare(runs);
  if (json) {
    fmt::print("{}\n", page::to_json(comparison).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}", page::to_text(comparison));
  for (const auto& run : runs)
    for (const auto& note : run.notes) fmt::print("{}: {}\n", run.name, note);
  return 0;
}

}  // namespace zero::cli
