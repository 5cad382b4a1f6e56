// LossScale: the factor of losses before backward(), so that small gradients do not vanish in fp16. The update divides
// gradients by it again.
//
// A dynamic scale begins high and finds its own value, as torch.amp.GradScaler's does: it is halved when a gradient
// overflows, and doubled after growth_interval updates in a row. A fixed scale stays.
//
//   LossScale scale(LossScaleOptions{});     // dynamic: 65536
//   scale.overflowed();                      // 32768; that step updates nothing
//   scale.updated();                         // one good step more: 2,000 in a row double it
//
// All ranks call the same, and so have the same scale. A value; Local.
#pragma once

#include <cstdint>
#include <string_view>

namespace zero {

struct LossScaleOptions {
  bool dynamic = true;
  double value = 65536;                 // at first; of a fixed scale, always
  std::int64_t growth_interval = 2000;  // updates in a row before a dynamic scale is doubled
  double least = 1;                     // of a dynamic scale

  static constexpr LossScaleOptions fixed(double value) { return {.dynamic = false, .value = value}; }
};

class LossScale {
 public:
  // Throws ConfigError under "train.loss_scale" for what is no positive fp32 number, or an interval below 1.
  explicit LossScale(const LossScaleOptions& options);

  double value() const { return state_.value; }
  // An overflow lowers it.
  bool may_fall() const { return options_.dynamic && state_.value > options_.least; }

  void updated();
  void overflowed();

  // What a checkpoint has of a dynamic scale; a value of 0: there is none.
  struct State {
    double value = 0;
    std::int64_t good_steps = 0;  // updates in a row since it changed
    bool operator==(const State&) const = default;
  };
  State state() const { return options_.dynamic ? state_ : State{}; }
  // Of a fixed scale nothing changes; without a value a dynamic one begins anew.
  void restore(const State& state);

 private:
  LossScaleOptions options_;
  State state_;
};

}  // namespace zero
