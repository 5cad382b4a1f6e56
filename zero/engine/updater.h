// Updater: the optimizer over what this rank holds of a unit, parameter by parameter.
//
// Each parameter belongs to one group (weight decay, learning-rate scale) and counts its own steps: one that got no
// gradient on any rank is left alone, its moments too, as in torch.optim.
//
//   updater.begin_step(present);                       // which parameters got a gradient anywhere
//   updater.update(unit, gradient, dtype, scalars);
//
// Local. The same bits for any number of threads.
#pragma once

#include <vector>

#include "zero/base/parallel.h"
#include "zero/engine/options.h"
#include "zero/engine/sharded_state.h"

namespace zero {

class Updater {
 public:
  Updater(ShardedState& state, const UpdateRule& rule, const std::vector<ParamSpec>& specs,
          const EngineOptions& options);

  // Counts a step of every present parameter.
  void begin_step(const std::vector<bool>& present);
  // `gradient`: of state.update_range(unit). `scale`: multiplies it (clip / world). `lr`: of this step, before group
  // scales.
  void update(int unit, const std::byte* gradient, DType dtype, double scale, double lr);

  double seconds() const { return seconds_; }

 private:
  struct Group {
    double weight_decay = 0;
    double lr_scale = 1;
  };
  ShardedState& state_;
  const UpdateRule& rule_;
  std::vector<Group> groups_;        // by parameter
  std::vector<std::int64_t> steps_;  // by parameter
  std::vector<bool> present_;
  ThreadTeam team_;
  double seconds_ = 0;
};

}  // namespace zero
