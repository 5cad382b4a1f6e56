// Residency: the units that are gathered, and their bytes. Building, simulating and replaying a schedule share
// this bookkeeping; it moves no bytes itself.
#pragma once

#include <vector>

#include "zero/plan/unit.h"

namespace zero {

class Residency {
 public:
  Residency(const std::vector<Unit>& units, int world);

  // Throw InternalError when the unit is there already, or not there.
  void add(int unit);
  void remove(int unit);

  bool holds(int unit) const { return held_[static_cast<std::size_t>(unit)]; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t bytes_of(int unit) const { return sizes_[static_cast<std::size_t>(unit)]; }
  std::vector<int> units() const;  // those held, ascending

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<bool> held_;
  std::int64_t bytes_ = 0;
};

}  // namespace zero
