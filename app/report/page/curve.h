// CurveThinner: a curve of any length in a few thousand points, in memory that does not grow with its length.
//
//   CurveThinner curve(2000);
//   for (...) curve.add(step, loss);
//   curve.points();      // at most 2002: the first, the last, and the least and the most of each stretch between them
//
// A curve of at most 2000 points stays unchanged. A spike of one step in a million remains visible. Points are added in
// the order of their steps. Values only; Local.
#pragma once

#include <cstddef>
#include <vector>

namespace zero::page {

struct CurvePoint {
  double step = 0;
  double value = 0;
  bool operator==(const CurvePoint&) const = default;
};

class CurveThinner {
 public:
  // `most`: number of points, at least 2.
  explicit CurveThinner(std::size_t most) : most_stretches_(most / 2) {}

  // Leaves out a value that is not finite.
  void add(double step, double value);
  std::vector<CurvePoint> points() const;

 private:
  struct Stretch {
    CurvePoint least, most;
    std::size_t num_points = 0;
    void take(const Stretch& next);
  };
  void halve();

  std::size_t most_stretches_;
  std::size_t points_of_stretch_ = 2;  // doubles if there is no room for another stretch
  bool has_points_ = false;
  CurvePoint first_, last_;
  std::vector<Stretch> stretches_;
};

}  // namespace zero::page
