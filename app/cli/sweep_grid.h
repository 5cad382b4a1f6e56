// SweepGrid: the runs of `zero sweep`, one for each combination of the given values.
//
//   SweepGrid grid({"zero.stage=0,3", "ranks=1,2"});
//   grid.points()[1].name       // "stage-0_ranks-2": the run's folder
//   grid.points()[1].settings   // {{"zero.stage", "0"}}: settings that override the configuration
//   grid.points()[1].ranks      // 2
//
// The last axis changes fastest. Local; values only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace zero::cli {

struct SweepPoint {
  std::string name;  // only letters, digits and ".-_"; unique
  std::vector<std::pair<std::string, std::string>> settings;
  std::optional<int> ranks;
  std::string text;  // "zero.stage=0 ranks=2", for the user
};

class SweepGrid {
 public:
  static constexpr std::size_t kMostRuns = 1000;

  // Each axis is KEY=VALUE,VALUE,... or, for values with commas, KEY=[VALUE, VALUE]. KEY is a key of the configuration,
  // or "ranks". Throws ConfigError with key "--over" for another KEY, for a repeated KEY, for an axis without values,
  // and for too many runs.
  explicit SweepGrid(std::span<const std::string> axes);

  const std::vector<SweepPoint>& points() const { return points_; }

 private:
  std::vector<SweepPoint> points_;
};

}  // namespace zero::cli
