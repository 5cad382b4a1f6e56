#include "app/report/page/curve.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace zero::page {

void CurveThinner::Stretch::take(const Stretch& next) {
  if (next.least.value < least.value) least = next.least;
  if (next.most.value > most.value) most = next.most;
  num_points += next.num_points;
}

void CurveThinner::add(double step, double value) {
  if (!std::isfinite(step) || !std::isfinite(value)) return;
  last_ = {step, value};
  if (!std::exchange(has_points_, true)) first_ = last_;
  const Stretch one{last_, last_, 1};
  if (!stretches_.empty() && stretches_.back().num_points < points_of_stretch_) {
    Stretch& open = stretches_.back();
    // A stretch keeps both of two points. If they are equal, the later one is the most.
    if (open.num_points == 1 && value == open.most.value) open.most = last_;
    open.take(one);
    return;
  }
  if (stretches_.size() == most_stretches_) halve();
  stretches_.push_back(one);
}

void CurveThinner::halve() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < stretches_.size(); i += 2) {
    Stretch both = stretches_[i];
    if (i + 1 < stretches_.size()) both.take(stretches_[i + 1]);
    stretches_[kept++] = both;
  }
  stretches_.resize(kept);
  points_of_stretch_ *= 2;
}

std::vector<CurvePoint> CurveThinner::points() const {
  std::vector<CurvePoint> points;
  if (!has_points_) return points;
  points.push_back(first_);
  for (const Stretch& stretch : stretches_) {
    points.push_back(stretch.least);
    points.push_back(stretch.most);
  }
  points.push_back(last_);
  std::ranges::stable_sort(points, {}, &CurvePoint::step);
  const auto again = std::ranges::unique(points);
  points.erase(again.begin(), again.end());
  return points;
}

}  // namespace zero::page
