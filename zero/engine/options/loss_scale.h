// LossScale: the factor of losses before backward(), so small gradients do not vanish in fp16.
//
//   LossScale scale(LossScaleOptions{});     // dynamic: 65536
//   scale.overflowed();                      // 32768; that step updates nothing
//   scale.updated();                         // one good step more: 2,000 in a row double it
//
// The update divides gradients by the scale. A dynamic scale works as torch.amp.GradScaler: it begins high, is halved
// when a gradient overflows, and doubled after growth_interval updates in a row. With `hysteresis` = 2 the first
// overflow leaves the scale, and the next ones halve it, until it has been doubled. A fixed scale stays. All ranks
// make the same calls, so all have the same scale. A value; Local.
#pragma once

#include <cstdint>
#include <string_view>

namespace zero {

struct LossScaleOptions {
  bool dynamic = true;
  double value = 65536;                 // first value; the only value of a fixed scale
  std::int64_t growth_interval = 2000;  // updates in a row before a dynamic scale is doubled
  double least = 1;                     // least value of a dynamic scale
  std::int64_t hysteresis = 1;          // number of the overflow that first halves the scale
  bool restored_by_update = false;      // an update, not only a doubled scale, begins to count overflows again

  static constexpr LossScaleOptions fixed(double value) { return {.dynamic = false, .value = value}; }
};

class LossScale {
 public:
  // Throws ConfigError under "train.loss_scale" unless the value and the least value are from 2^-126 to 2^126. The
  // interval and the hysteresis must be 1 or more.
  explicit LossScale(const LossScaleOptions& options);

  double value() const { return state_.value; }
  // Returns whether an overflow lowers the scale.
  bool may_fall() const { return options_.dynamic && state_.value > options_.least; }

  void updated();
  void overflowed();

  // A dynamic scale as stored in a checkpoint; value 0: none.
  struct State {
    double value = 0;
    std::int64_t good_steps = 0;  // updates in a row since the value changed
    bool operator==(const State&) const = default;
  };
  State state() const { return options_.dynamic ? state_ : State{}; }
  // Restores a dynamic scale; without a value it begins again. No-op for a fixed scale.
  void restore(const State& state);

 private:
  LossScaleOptions options_;
  State state_;
  std::int64_t overflows_left_;  // overflows until one halves the scale, that one included
};

}  // namespace zero
