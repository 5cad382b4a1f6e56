// CurveThinner: a curve of any length in a few thousand points, in memory that does not grow with it.
//
//   CurveThinner curve(2000);
//   for (...) curve.add(step, loss);
//   curve.points();      // at most 2002: the first, the last, and of each stretch between them the least and the most
//
// A curve of no more than 2000 points stays as it is. So a spike of one step in a million is still there to be seen.
// Points come in the order of their steps. Values only; Local.
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
  // `most`: points, at least 2.
  explicit CurveThinner(std::size_t most) : most_stretches_(most / 2) {}

  // A value that is not finite is left out.
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
  std::size_t points_of_stretch_ = 2;  // doubles when there is no room for another stretch
  bool has_points_ = false;
  CurvePoint first_, last_;
  std::vector<Stretch> stretches_;
};

}  // namespace zero::page
