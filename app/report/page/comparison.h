// Runs side by side: what differs in what they did, and in what they were told to do.
//
//   const Comparison comparison = compare(runs);
//   std::cout << to_text(comparison);        // a table, one column a run
//   std::cout << to_json(comparison);        // the same for programs
//
// A change is a run's figure beside the first run's. A row of which no run knows anything is left out. Values only;
// Local.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/report/page/recorded_run.h"

namespace zero::page {

// How a figure reads.
enum class Unit { kNumber, kCount, kBytes, kSeconds, kPerSecond, kFraction };

struct ComparedFigure {
  std::string key;    // "step_seconds", for programs
  std::string label;  // "time of a step (median)"
  Unit unit = Unit::kNumber;
  int better = 0;                             // -1: less is better, 1: more, 0: neither
  std::vector<std::optional<double>> values;  // by run
  std::string note;                           // of several runs: what the figure is told against; empty: nothing
};

struct ComparedKey {
  std::string key;
  std::vector<std::string> values;  // by run, as TOML; empty: the run has no such key
  bool differs = false;
};

struct Comparison {
  std::vector<std::string> names;  // of the runs
  std::vector<bool> done;
  std::vector<ComparedFigure> figures;
  std::vector<ComparedKey> keys;  // all of them; run.dir, which always differs, is left out
};

// Of several runs utilization is told against the highest peak that one of them probed on the same machine, with the
// same device and number of threads: N times that of a rank, but no more than all ranks of one of these runs reached
// together. A machine can do what it did once, and steps that take as long then have the same utilization. A run whose
// report tells no peak keeps its own utilization; so does a run alone.
Comparison compare(std::span<const RecordedRun> runs);

// "188 ms", "11.1 MiB", "4,080 /s"; "-" for nothing.
std::string format_figure(Unit unit, const std::optional<double>& value);
// "+12%", "+0.03%", or "x 3.4" from twice the first run's on. "=" is only for equal values. Empty for the first run,
// and if that has none or 0.
std::string format_change(const ComparedFigure& figure, std::size_t run);

// A line for each note of a figure, as it stands below a table.
std::string notes_text(const Comparison& comparison);
std::string to_text(const Comparison& comparison);
nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace zero::page
