#include "zero/engine/delayed_update.h"

#include <utility>

namespace zero {

void DelayedUpdate::begin(std::span<const int> order) {
  if (!kept_) return;
  const Kept kept = *std::exchange(kept_, std::nullopt);
  state_.keep_gradients();
  updater_.begin_step(kept.present, order, kept.scale, kept.lr);
  open_ = true;
}

void DelayedUpdate::unit_is_free(int unit) {
  if (open_) updater_.defer(unit, nullptr, state_.gradient_dtype(unit));
}

void DelayedUpdate::release(std::span<const int> order) {
  if (!std::exchange(open_, false)) return;
  updater_.reorder(order);
  for (const int unit : order) updater_.defer(unit, nullptr, state_.gradient_dtype(unit));
}

}  // namespace zero
