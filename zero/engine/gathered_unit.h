// GatheredUnit: full parameters exist only while one of these lives. Move-only; release is a destructor, not a call one
// can forget. It may go on the way out of an exception, so its destructor does not throw.
#pragma once

#include <utility>

namespace zero {

// Who counts the uses of units: the engine, or whoever traces a module without one.
class UnitPins {
 public:
  virtual ~UnitPins() = default;
  // Local. What goes wrong here is kept and thrown by the next call that may throw.
  virtual void unpin(int unit) noexcept = 0;
};

class [[nodiscard]] GatheredUnit {
 public:
  GatheredUnit() = default;
  GatheredUnit(UnitPins& pins, int unit) : pins_(&pins), unit_(unit) {}
  GatheredUnit(GatheredUnit&& other) noexcept : pins_(std::exchange(other.pins_, nullptr)), unit_(other.unit_) {}
  GatheredUnit& operator=(GatheredUnit&& other) noexcept {
    std::swap(pins_, other.pins_);
    std::swap(unit_, other.unit_);
    return *this;
  }
  ~GatheredUnit() {
    if (pins_ != nullptr) pins_->unpin(unit_);
  }

  int unit() const { return unit_; }

 private:
  UnitPins* pins_ = nullptr;
  int unit_ = -1;
};

}  // namespace zero
