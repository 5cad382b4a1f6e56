#include "zero/memory/disk_places.h"

#include <algorithm>

#include "zero/base/check.h"

namespace zero {

DiskPlaces::DiskPlaces(DiskOptions options, Ledger& ledger, MemoryTag tag, DiskSeam seam)
    : options_(std::move(options)), ledger_(ledger), tag_(tag), seam_(std::move(seam)) {}

void DiskPlaces::open() {
  if (slabs_.empty()) add_slab(0);
}

void DiskPlaces::add_slab(std::int64_t least_bytes) {
  DiskOptions options = options_;
  options.bytes = std::max({kSlabBytes, least_bytes, capacity_bytes() / 4});
  auto tier = std::make_unique<DiskTier>(options, seam_);
  Charge charge(ledger_, Tier::kDisk, tag_, tier->capacity_bytes());
  slabs_.push_back({std::move(tier), std::move(charge)});
}

DiskTier& DiskPlaces::tier_with(std::int64_t bytes) {
  for (const Slab& slab : slabs_) {
    if (slab.tier->capacity_bytes() - slab.tier->reserved_bytes() >= bytes) return *slab.tier;
  }
  add_slab(bytes);
  return *slabs_.back().tier;
}

DiskPlace DiskPlaces::take(std::int64_t bytes) {
  ZERO_CHECK(bytes > 0, "a place of {} bytes", bytes);
  constexpr std::int64_t kPage = DiskTier::kPageBytes;
  const std::int64_t whole = (bytes + kPage - 1) / kPage * kPage;
  // One up to twice as large will do: sizes that vary from step to step settle on few places, and no small one takes a
  // large place away.
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
  ZERO_CHECK(place.tier != nullptr, "a place that nobody took");
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
    const DiskTraffic& one = slab.tier->traffic();
    sum.read_bytes += one.read_bytes;
    sum.written_bytes += one.written_bytes;
    sum.waited_seconds += one.waited_seconds;
  }
  return sum;
}

std::string DiskPlaces::describe() const {
  return slabs_.empty() ? "" : slabs_.front().tier->describe();
}

}  // namespace zero
