#include "zero/engine/place/device_probe.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>

#include "zero/base/error/error.h"
#include "zero/base/process/clock.h"

namespace zero {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{32} << 20;
constexpr int kRounds = 3;

// Returns the bytes a second of the work that `queue` puts into kUpdate: the best of a few rounds.
std::int64_t rate_of(Device& device, std::int64_t bytes, const std::function<void()>& queue) {
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round <= kRounds; ++round) {
    const double start = monotonic_seconds();
    queue();
    device.join(device.mark(Lane::kUpdate));
    if (round > 0) least = std::min(least, monotonic_seconds() - start);  // the first round commits pages
  }
  return static_cast<std::int64_t>(static_cast<double>(bytes) / std::max(least, 1e-9));
}

// Returns the bytes of an element's update: it reads gradient, parameter and states num_reads times, and writes
// parameter and states.
double touched_bytes(const OptimizerSpec& optimizer) {
  const double states = optimizer.element_bytes(), element = sizeof(float);
  return optimizer.num_reads * (2 * element + states) + element + states;
}

DeviceRates rates_of(Device& device, const OptimizerSpec& optimizer, std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  const Allocation there = device.allocate(size), beside = device.allocate(size), pinned = device.allocate_pinned(size);
  const auto copies = [&](std::span<std::byte> to, std::span<const std::byte> from) {
    return rate_of(device, bytes, [&] { device.copy(Lane::kUpdate, to, from); });
  };
  DeviceRates rates{.up = copies(there.bytes(), pinned.bytes()), .down = copies(pinned.bytes(), there.bytes())};
  const auto copied = static_cast<double>(copies(beside.bytes(), there.bytes()));
  rates.update_numel = static_cast<std::int64_t>(2 * copied / touched_bytes(optimizer));
  return rates;
}

}  // namespace

DeviceRates probe_device(Device& device, const OptimizerSpec& optimizer, std::int64_t free_bytes) {
  for (std::int64_t bytes = std::min(kMostBytes, free_bytes / kProbeParts); bytes >= kLeastProbe; bytes /= 2) {
    try {
      return rates_of(device, optimizer, bytes);
      // its memory is short: other programs have taken some, or the free bytes are unknown
    } catch (const ConfigError&) {
    }
  }
  return {};
}

}  // namespace zero
