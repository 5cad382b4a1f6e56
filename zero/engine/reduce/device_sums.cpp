#include "zero/engine/reduce/device_sums.h"

#include <algorithm>
#include <type_traits>

#include "zero/base/error/check.h"
#include "zero/comm/collectives.h"

namespace zero {

DeviceSums::DeviceSums(Device& device, Ledger& ledger, std::size_t most, std::size_t most_sent) : device_(device) {
  const auto on_device = [&](std::size_t bytes) {
    return Buffer(device.allocate(bytes), ledger, Tier::kDevice, MemoryTag::kStaging);
  };
  const auto pinned = [&](std::size_t bytes) {
    return Buffer(device.allocate_pinned(bytes), ledger, Tier::kHost, MemoryTag::kStaging);
  };
  sums_ = on_device(most * sizeof(SumLimbs));
  sums_down_ = pinned(most * sizeof(SumLimbs));
  if (most_sent == 0) return;
  sent_ = on_device(most_sent * sizeof(double));
  sent_up_ = pinned(most_sent * sizeof(double));
}

void DeviceSums::begin(std::size_t count) {
  count_ = count;
  device_.fill(Lane::kUpdate, std::as_writable_bytes(at(0, count)), std::byte{0});
}

std::span<SumLimbs> DeviceSums::at(std::size_t first, std::size_t count) const {
  ZERO_CHECK(first + count <= count_ && count_ <= sums_.as<SumLimbs>().size(), "sums {} to {} of {}", first,
             first + count, count_);
  return sums_.as<SumLimbs>().subspan(first, count);
}

void DeviceSums::take(std::span<ExactSum> sums) {
  ZERO_CHECK(sums.size() == count_, "{} sums for {}", sums.size(), count_);
  const std::span<SumLimbs> down = sums_down_.as<SumLimbs>().first(count_);
  follow(device_, Lane::kDown, Lane::kUpdate);
  device_.copy(Lane::kDown, std::as_writable_bytes(down), std::as_bytes(at(0, count_)));
  device_.join(device_.mark(Lane::kDown));
  const Access taken = reads(down);
  device_.host_touches({&taken, 1}, "the host takes sums");
  for (std::size_t i = 0; i < count_; ++i) sums[i].add(down[i]);
}

std::span<const double> DeviceSums::send(std::span<const double> values) {
  const std::span<double> up = sent_up_.as<double>(), there = sent_.as<double>();
  ZERO_CHECK(values.size() <= up.size(), "{} values in room for {}", values.size(), up.size());
  const Access written = writes(up.first(values.size()));
  device_.host_touches({&written, 1}, "the host sends the results of its sums");
  std::ranges::copy(values, up.begin());
  device_.copy(Lane::kUp, std::as_writable_bytes(there.first(values.size())), std::as_bytes(up.first(values.size())));
  return there.first(values.size());
}

std::vector<double> sums_over_ranks(Communicator& comm, std::span<const ExactSum> mine) {
  static_assert(std::is_trivially_copyable_v<ExactSum>);
  std::vector<ExactSum> all(mine.size() * static_cast<std::size_t>(comm.world()));
  all_gather(comm, std::as_bytes(mine), std::as_writable_bytes(std::span(all)), {.control = true});
  std::vector<double> sums(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    ExactSum sum;
    for (std::size_t at = i; at < all.size(); at += mine.size()) sum.add(all[at]);
    sums[i] = sum.value();
  }
  return sums;
}

}  // namespace zero
