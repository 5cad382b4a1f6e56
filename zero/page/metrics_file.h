// MetricsFile: metrics.jsonl of a run, of any length, as curves that fit a page.
//
//   const MetricsFile metrics = read_metrics("runs/a/metrics.jsonl");
//   metrics.curve("loss")                        // nullptr where the run has none
//   metrics.curve("memory_bytes.gathered")       // a value of an object has the names of both
//   metrics.curve("ranks.wait_seconds.1")         // of one rank, where there are at most kMostRankCurves
//   metrics.num_damaged                          // lines that are no JSON or of no step: counted, and left out
//
// Every number of a line becomes a curve over steps, so that what is logged in the future is shown, too. The file is
// read line by line; lines are untrusted. A run may be writing it: half a line at its end is no damage.
// Local. IoError where the file cannot be read; one that is not there is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "zero/page/curve.h"
#include "zero/page/rank_table.h"

namespace zero::page {

// What happened at a step beside training: "skipped", "rewound", "stopped" (zero/train/health_event.h), "checkpoint",
// or "pause": seconds between two lines that neither step nor evaluation accounts for, as a restart leaves them.
struct RunEvent {
  double step = 0;
  std::string kind;
  std::string text;  // for people
};

struct MetricsFile {
  static constexpr std::size_t kMostPoints = 2000;  // a curve
  static constexpr std::size_t kMostCurves = 100;
  static constexpr std::size_t kMostEvents = 1000;
  static constexpr std::size_t kMostLineBytes = 1 << 18;
  static constexpr std::size_t kMostRankCurves = 8;

  std::map<std::string, std::vector<CurvePoint>, std::less<>> curves;
  RankTable ranks;
  std::vector<RunEvent> events;        // the first ones
  std::vector<double> step_seconds;    // of every step: a median wants them all
  std::int64_t num_lines = 0;          // whole ones
  std::int64_t num_damaged = 0;        // of them
  std::int64_t num_events_beyond = 0;  // beyond kMostEvents
  bool ends_in_half_a_line = false;

  const std::vector<CurvePoint>* curve(std::string_view name) const;
};

MetricsFile read_metrics(const std::filesystem::path& path);

}  // namespace zero::page
