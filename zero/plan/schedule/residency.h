// Residency: the set of gathered units, and their bytes. Building, simulating and replaying a schedule share this
// bookkeeping, which moves no bytes.
#pragma once

#include <vector>

#include "zero/plan/units/unit.h"

namespace zero {

class Residency {
 public:
  Residency(const std::vector<Unit>& units, int world);

  // Throw InternalError if the unit is already in the set, or is not in it.
  void add(int unit);
  void remove(int unit);

  bool holds(int unit) const { return held_[static_cast<std::size_t>(unit)]; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t bytes_of(int unit) const { return sizes_[static_cast<std::size_t>(unit)]; }
  std::vector<int> units() const;  // the gathered units, ascending

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<bool> held_;
  std::int64_t bytes_ = 0;
};

}  // namespace zero
