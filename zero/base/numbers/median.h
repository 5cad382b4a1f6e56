// median_of(): the median of some values. For an even number of values it is the mean of the two in the middle.
//
//   median_of({1, 4, 2, 3});     // 2.5
//
// Returns 0 if there is no value. Local.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace zero {

inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace zero
