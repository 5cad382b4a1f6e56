#include "app/train/machine/activation_offload_meter.h"

#include <utility>

namespace zero {

void ActivationOffloadMeter::end_step() {
  if (store_ != nullptr) before_ = std::exchange(now_, store_->report().activation_offload);
}

void ActivationOffloadMeter::add_to(RankReport& rank) const {
  if (store_ == nullptr) return;
  const ActivationReport report = store_->report();
  rank.memory += report.held;
  rank.peak_memory += report.peak;
  for (const Tier tier : kAllTiers) rank.peak_memory_total[tier] += report.peak[tier].total();
  rank.activations_peak_bytes = now_.peak_bytes;
  rank.activations_disk_per_step = disk();
}

}  // namespace zero
