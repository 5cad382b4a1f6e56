// GatheredUnit: full parameters exist only while one of these lives. Move-only; release is a destructor, not a call one
// can forget. It may go on the way out of an exception, so its destructor does not throw.
//
//   const GatheredUnit held = engine.use(unit, Use::kUntraced);
//   std::memcpy(held.data(), bytes, size);
//   held.mark_written();                                         // stored when the last use of the unit ends
#pragma once

#include <cstddef>
#include <utility>

namespace zero {

// Who counts the uses of units: the engine, or whoever traces a module without one.
class UnitPins {
 public:
  virtual ~UnitPins() = default;
  // Local. What goes wrong here is kept and thrown by the next call that may throw.
  virtual void unpin(int unit) noexcept = 0;
  // Local.
  virtual void mark_written(int unit) = 0;
};

class [[nodiscard]] GatheredUnit {
 public:
  GatheredUnit() = default;
  GatheredUnit(UnitPins& pins, int unit, std::byte* data) : pins_(&pins), unit_(unit), data_(data) {}
  GatheredUnit(GatheredUnit&& other) noexcept
      : pins_(std::exchange(other.pins_, nullptr)), unit_(other.unit_), data_(other.data_) {}
  GatheredUnit& operator=(GatheredUnit&& other) noexcept {
    std::swap(pins_, other.pins_);
    std::swap(unit_, other.unit_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~GatheredUnit() {
    if (pins_ != nullptr) pins_->unpin(unit_);
  }

  int unit() const { return unit_; }
  // The unit's flat range in its dtype; null where a module is traced without memory.
  std::byte* data() const { return data_; }
  // What is in use is also written. Not of a default one.
  void mark_written() const { pins_->mark_written(unit_); }

 private:
  UnitPins* pins_ = nullptr;
  int unit_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace zero
