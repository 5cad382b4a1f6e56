// Comparison: runs side by side: their figures, and their configurations.
//
//   const Comparison comparison = compare(runs);
//   std::cout << to_text(comparison);        // a table, one column a run
//   std::cout << to_json(comparison);        // the same for programs
//
// A change compares a run's figure with the first run's. A row without a value in any run is left out. Values only;
// Local.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/report/page/recorded_run.h"

namespace zero::page {

// The format of a figure.
enum class Unit { kNumber, kCount, kBytes, kSeconds, kPerSecond, kFraction };

struct ComparedFigure {
  std::string key;    // "step_seconds", for programs
  std::string label;  // "time of a step (median)"
  Unit unit = Unit::kNumber;
  int better = 0;                             // -1: less is better, 1: more, 0: neither
  std::vector<std::optional<double>> values;  // by run
  std::string note;                           // with several runs: the reference of the figure; empty: no reference
};

// Returns the key of the most bytes on a tier: "host_peak_bytes"; "disk_bytes" if reports have no peaks of the tier.
std::string key_of_bytes(const TierFacts& tier);

struct ComparedKey {
  std::string key;
  std::vector<std::string> values;  // by run, as TOML; empty: the run has no such key
  bool differs = false;
};

struct Comparison {
  std::vector<std::string> names;  // names of the runs
  std::vector<bool> done;
  std::vector<ComparedFigure> figures;
  std::vector<ComparedKey> keys;  // all keys but run.dir, which always differs
};

// Compares runs. The utilization of several runs is relative to the highest peak that any of them probed. Only runs on
// the same machine, with the same device and number of threads, share a peak. For N ranks, that is N times the highest
// peak of a rank. It is at most the highest total of all ranks of one of these runs. So equal step times give equal
// utilizations. A single run, and a run without a peak in its report, keeps its own utilization.
Comparison compare(std::span<const RecordedRun> runs);

// Returns "188 ms", "11.1 MiB" or "4,080 /s"; "-" if there is no value.
std::string format_figure(Unit unit, const std::optional<double>& value);
// Returns "+12%" or "+0.03%", or "x 3.4" from twice the first run's value on. Only equal values give "=". Empty for the
// first run, and if the first run has no value or 0.
std::string format_change(const ComparedFigure& figure, std::size_t run);

// Returns a line for each note of a figure, which is printed below the table.
std::string notes_text(const Comparison& comparison);
std::string to_text(const Comparison& comparison);
nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace zero::page
