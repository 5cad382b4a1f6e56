// MetricsFile: the metrics.jsonl of a run, of any length, as curves that fit a page.
//
//   const MetricsFile metrics = read_metrics("runs/a/metrics.jsonl");
//   metrics.curve("loss")                        // nullptr if the run has none
//   metrics.curve("memory_bytes.gathered")       // a value within an object: both names
//   metrics.curve("ranks.wait_seconds.1")        // of one rank, if there are at most kMostRankCurves
//   metrics.last("loss")                         // NaN if the last step's loss is null in the file
//   metrics.num_damaged                          // lines left out: they are not JSON, or have no step
//
// Every number of a line becomes a curve over steps, so new keys need no change here. The file is read line by line,
// and lines are untrusted. A run may be writing the file: half a line at its end is no damage. Local. IoError if the
// file cannot be read; a missing file is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "app/report/page/curve.h"
#include "app/report/page/rank_table.h"

namespace zero::page {

// An event of a step beside training: "skipped", "rewound", "stopped" (app/train/watch/health_event.h), "checkpoint" or
// "pause". A pause is the seconds between two lines that neither step nor evaluation accounts for, as after a restart.
struct RunEvent {
  double step = 0;
  std::string kind;
  std::string text;  // for people
};

struct MetricsFile {
  static constexpr std::size_t kMostPoints = 2000;  // points of a curve
  static constexpr std::size_t kMostCurves = 100;
  static constexpr std::size_t kMostEvents = 1000;
  static constexpr std::size_t kMostLineBytes = 1 << 18;
  static constexpr std::size_t kMostRankCurves = 8;

  std::map<std::string, std::vector<CurvePoint>, std::less<>> curves;
  RankTable ranks;
  std::vector<RunEvent> events;        // the first kMostEvents
  std::vector<double> step_seconds;    // of every step, which a median needs
  std::int64_t num_lines = 0;          // whole lines
  std::int64_t num_damaged = 0;        // of these lines
  std::int64_t num_events_beyond = 0;  // beyond kMostEvents
  bool ends_in_half_a_line = false;
  std::set<std::string, std::less<>> not_finite;  // names whose last value is null: it was NaN or infinite

  const std::vector<CurvePoint>* curve(std::string_view name) const;
  // Returns the last value of a number; NaN if that was not finite; nothing if the file has no such number.
  std::optional<double> last(std::string_view name) const;
};

MetricsFile read_metrics(const std::filesystem::path& path);

}  // namespace zero::page
