#include "zero/engine/delayed_update.h"

#include <utility>

#include "zero/base/error/check.h"

namespace zero {

void DelayedUpdate::keep(Kept kept) {
  ZERO_CHECK(!kept_, "a waiting gradient would be lost");
  kept_ = std::move(kept);
}

void DelayedUpdate::begin(std::span<const int> order) {
  if (!kept_) return;
  const Kept kept = *std::exchange(kept_, std::nullopt);
  state_.keep_gradients();
  updater_.begin_step(kept.present, order, kept.scale, kept.lr);
  open_ = true;
}

void DelayedUpdate::unit_is_free(int unit) {
  if (!open_) return;
  free_.resize(state_.units().size());
  free_[static_cast<std::size_t>(unit)] = true;
  updater_.enqueue(unit, nullptr, state_.gradient_dtype(unit));
}

void DelayedUpdate::release(std::span<const int> order) {
  if (!std::exchange(open_, false)) return;
  free_.clear();
  updater_.reorder(order);
  for (const int unit : order) updater_.enqueue(unit, nullptr, state_.gradient_dtype(unit));
}

}  // namespace zero
