#include "zero/engine/half_steps.h"

#include <span>

#include "zero/engine/engine_parts.h"
#include "zero/engine/engine_step.h"

namespace zero {

StepReport HalfSteps::apply(const GivenGradients& gradients, double lr, const StepLimits& limits) {
  return io_.run([&] {
    step_.begin_backward();
    parts_.reducer.give(gradients);
    return step_.take({.lr = lr}, limits);
  });
}

void HalfSteps::give_away(const TakeGradient& take, const std::function<void()>& taken) {
  io_.run([&] { step_.give_away(take, taken); });
}

void HalfSteps::read_parameter_shard(int unit, std::byte* into) {
  io_.run([&] {
    parts_.updater.finish();
    Device& device = parts_.state.device();
    if (const std::span<std::byte> held = parts_.state.parameter_shard(unit); !held.empty()) {
      follow(device, Lane::kDown, Lane::kUpdate);
      device.copy(Lane::kDown, {into, held.size()}, held);
      device.join(device.mark(Lane::kDown));
    } else {
      parts_.state.streams().fetch_parameter(unit, into, parts_.state.shard(unit).numel);
      device.join(device.mark(Lane::kUp));
    }
  });
}

std::byte* HalfSteps::whole_parameter(int unit) {
  return parts_.state.whole_parameter(unit);
}

const std::vector<bool>& HalfSteps::present() const {
  return parts_.reducer.arrivals().present();
}

}  // namespace zero
