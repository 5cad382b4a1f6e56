// GatheredUnit: full parameters exist only while one of these lives. Move-only; release is a destructor, not a call one can
// forget. It may outlive an exception on the way out of an operator, so its destructor does not throw: what storing a written
// unit throws is kept and rethrown by the next call into the engine.
#pragma once

#include <utility>

namespace zero {

class Engine;

class [[nodiscard]] GatheredUnit {
 public:
  GatheredUnit() = default;
  GatheredUnit(Engine& engine, int unit) : engine_(&engine), unit_(unit) {}
  GatheredUnit(GatheredUnit&& other) noexcept : engine_(std::exchange(other.engine_, nullptr)), unit_(other.unit_) {}
  GatheredUnit& operator=(GatheredUnit&& other) noexcept {
    std::swap(engine_, other.engine_);
    std::swap(unit_, other.unit_);
    return *this;
  }
  ~GatheredUnit();

  int unit() const { return unit_; }

 private:
  Engine* engine_ = nullptr;
  int unit_ = -1;
};

}  // namespace zero
