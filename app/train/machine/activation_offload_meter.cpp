#include "app/train/machine/activation_offload_meter.h"

#include <utility>

namespace zero {
namespace {

void add(MemoryCount& sum, const MemoryCount& more) {
  for (const MemoryTag tag : kAllMemoryTags) sum[tag] += more[tag];
}

}  // namespace

void ActivationOffloadMeter::end_step() {
  if (store_ != nullptr) before_ = std::exchange(now_, store_->report().activation_offload);
}

void ActivationOffloadMeter::add_to(RankReport& rank) const {
  if (store_ == nullptr) return;
  const ActivationReport held = store_->report();
  add(rank.memory, held.device);
  add(rank.peak_memory, held.peak_device);
  add(rank.host_memory, held.host);
  add(rank.peak_host_memory, held.peak_host);
  add(rank.disk_memory, held.disk);
  rank.peak_memory_total += held.peak_device.total();
  rank.peak_host_memory_total += held.peak_host.total();
  rank.activations_peak_bytes = now_.peak_bytes;
  rank.activations_disk_per_step = disk();
}

}  // namespace zero
