#include "zero/plan/schedule/residency.h"

#include "zero/base/error/check.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

Residency::Residency(const std::vector<Unit>& units, int world) : held_(units.size(), false) {
  for (const Unit& unit : units) sizes_.push_back(gathered_bytes(unit, world));
}

void Residency::add(int unit) {
  ZERO_CHECK(!holds(unit), "unit {} is gathered already", unit);
  held_[static_cast<std::size_t>(unit)] = true;
  bytes_ += bytes_of(unit);
}

void Residency::remove(int unit) {
  ZERO_CHECK(holds(unit), "unit {} is not gathered", unit);
  held_[static_cast<std::size_t>(unit)] = false;
  bytes_ -= bytes_of(unit);
}

std::vector<int> Residency::units() const {
  std::vector<int> result;
  for (std::size_t unit = 0; unit < held_.size(); ++unit) {
    if (held_[unit]) result.push_back(static_cast<int>(unit));
  }
  return result;
}

}  // namespace zero
