// SweepGrid: the runs of `zero sweep`, one for each combination of the values that were asked for.
//
//   SweepGrid grid({"zero.stage=0,3", "ranks=1,2"});
//   grid.points()[1].name       // "stage-0_ranks-2": the run's folder
//   grid.points()[1].settings   // {{"zero.stage", "0"}}: what the configuration says otherwise
//   grid.points()[1].ranks      // 2
//
// The last axis changes fastest. Values only; Local.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace zero::cli {

struct SweepPoint {
  std::string name;  // of letters, digits and ".-_" alone; no two points share one
  std::vector<std::pair<std::string, std::string>> settings;
  std::optional<int> ranks;
  std::string text;  // "zero.stage=0 ranks=2", for people
};

class SweepGrid {
 public:
  static constexpr std::size_t kMostRuns = 1000;

  // Each axis: KEY=VALUE,VALUE,... or, for values with commas, KEY=[VALUE, VALUE]. KEY is a key of the configuration, or
  // "ranks". Throws ConfigError under "--over" for what is neither, for a key that is there twice, an axis without
  // values, and too many runs.
  explicit SweepGrid(std::span<const std::string> axes);

  const std::vector<SweepPoint>& points() const { return points_; }

 private:
  std::vector<SweepPoint> points_;
};

}  // namespace zero::cli
