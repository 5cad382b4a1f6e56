#include "zero/memory/disk/disk_places.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"

namespace zero {

DiskPlaces::DiskPlaces(DiskOptions options, Ledger& ledger, MemoryTag tag, DiskSeam seam, std::int64_t most_bytes)
    : options_(std::move(options)), ledger_(ledger), tag_(tag), seam_(std::move(seam)), most_bytes_(most_bytes) {}

void DiskPlaces::open(std::int64_t bytes) {
  if (slabs_.empty()) add_slab(bytes, bytes > 0 ? bytes : kSlabBytes);
}

void DiskPlaces::add_slab(std::int64_t least_bytes, std::int64_t wanted_bytes) {
  DiskOptions options = options_;
  options.bytes = std::max(least_bytes, wanted_bytes);
  if (most_bytes_ > 0) {
    const std::int64_t left = (most_bytes_ - capacity_bytes()) / DiskTier::kPageBytes * DiskTier::kPageBytes;
    if (least_bytes > left || left == 0)
      throw ConfigError("zero.disk_memory", format_bytes(most_bytes_),
                        fmt::format("activations take {} of it, and need {} B more ({})",
                                    format_bytes(capacity_bytes()), least_bytes, format_bytes(least_bytes)),
                        "allow more, or use smaller or fewer activations");
    options.bytes = std::min(options.bytes, left);
  }
  auto tier = std::make_unique<DiskTier>(options, seam_);
  Charge charge(ledger_, Tier::kDisk, tag_, tier->capacity_bytes());
  slabs_.push_back({std::move(tier), std::move(charge)});
}

DiskTier& DiskPlaces::tier_with(std::int64_t bytes) {
  for (const Slab& slab : slabs_) {
    if (slab.tier->capacity_bytes() - slab.tier->reserved_bytes() >= bytes) return *slab.tier;
  }
  add_slab(bytes, std::max(kSlabBytes, capacity_bytes() / 4));
  return *slabs_.back().tier;
}

DiskPlace DiskPlaces::take(std::int64_t bytes) {
  ZERO_CHECK(bytes > 0, "a place of {} bytes", bytes);
  constexpr std::int64_t kPage = DiskTier::kPageBytes;
  const std::int64_t whole = (bytes + kPage - 1) / kPage * kPage;
  // A place of up to twice the size also fits. So sizes that vary from step to step need few places, and no small
  // request takes a much larger place.
  const auto found = free_.lower_bound(whole);
  if (found != free_.end() && found->first <= 2 * whole) {
    const DiskPlace place = found->second;
    free_.erase(found);
    return place;
  }
  DiskTier& tier = tier_with(whole);
  return {&tier, tier.reserve(whole), whole};
}

void DiskPlaces::give_back(const DiskPlace& place) {
  ZERO_CHECK(place.tier != nullptr, "a place that is not taken");
  free_.emplace(place.bytes, place);
}

std::int64_t DiskPlaces::capacity_bytes() const {
  std::int64_t sum = 0;
  for (const Slab& slab : slabs_) sum += slab.tier->capacity_bytes();
  return sum;
}

DiskTraffic DiskPlaces::traffic() const {
  DiskTraffic sum;
  for (const Slab& slab : slabs_) {
    sum = sum + slab.tier->traffic();
  }
  return sum;
}

std::string DiskPlaces::describe() const {
  return slabs_.empty() ? "" : slabs_.front().tier->describe();
}

}  // namespace zero
