// GatheredUnit: keeps the full parameters of a unit gathered while it lives.
//
//   const GatheredUnit held = engine.use(unit, Use::kUntraced);
//   std::memcpy(held.data(), bytes, size);
//   held.mark_written();                                         // stored when the last use of the unit ends
//
// Move-only. The destructor ends the use, so a release cannot be forgotten. It may run during an exception, and does
// not throw.
#pragma once

#include <cstddef>
#include <utility>

namespace zero {

// The model that uses gathered units. It learns their addresses.
class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  // Receives the address of the unit's parameters, in its dtype, laid out by Unit::slices; valid until the next call
  // for this unit. Null: released.
  virtual void bind(int unit, std::byte* data) = 0;
};

// Counts the uses of units: the engine, or a tracer of a module without an engine.
class UnitPins {
 public:
  virtual ~UnitPins() = default;
  // Local. Keeps an error; the next call that may throw throws it.
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
  // Returns the unit's flat range in its dtype; null if a module is traced without memory.
  std::byte* data() const { return data_; }
  // Marks the unit as written. Not for a default-constructed GatheredUnit.
  void mark_written() const { pins_->mark_written(unit_); }

 private:
  UnitPins* pins_ = nullptr;
  int unit_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace zero
