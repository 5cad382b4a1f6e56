#include "zero/plan/served/version_places.h"

#include <algorithm>

#include "zero/base/error/check.h"

namespace zero {

VersionPlaces::VersionPlaces(const SyncPlan& plan, int workers)
    : num_versions_(plan.num_versions()),
      versions_(static_cast<std::size_t>(plan.num_versions() + plan.num_older_versions(workers)), -1),
      pins_(static_cast<std::size_t>(workers), -1) {}

int VersionPlaces::keep(std::int64_t version) {
  const int place = free_place();
  ZERO_CHECK(place >= 0, "version {} of the weights needs a place, and all {} are being read", version, size());
  versions_[static_cast<std::size_t>(place)] = version;
  return place;
}

// Finds the place of the oldest version that is neither read nor among the newest; the next version counts as one of
// these.
int VersionPlaces::free_place() const {
  std::vector<std::int64_t> stay = newest();
  if (std::ssize(stay) == num_versions_) stay.erase(stay.begin());
  int free = -1;
  for (int place = 0; place < size(); ++place) {
    const std::int64_t version = versions_[static_cast<std::size_t>(place)];
    if (version < 0 || std::ranges::find(stay, version) != stay.end() || is_pinned(version)) continue;
    if (free < 0 || version < versions_[static_cast<std::size_t>(free)]) free = place;
  }
  if (free >= 0) return free;
  const auto unused = std::ranges::find(versions_, -1);
  return unused == versions_.end() ? -1 : static_cast<int>(unused - versions_.begin());
}

int VersionPlaces::place_of(std::int64_t version) const {
  const auto found = version < 0 ? versions_.end() : std::ranges::find(versions_, version);
  return found == versions_.end() ? -1 : static_cast<int>(found - versions_.begin());
}

void VersionPlaces::pin(int worker, std::int64_t version) {
  ZERO_CHECK(place_of(version) >= 0, "worker {} should read version {}, and no place holds it", worker, version);
  pins_[static_cast<std::size_t>(worker)] = version;
}

void VersionPlaces::unpin(int worker) {
  pins_[static_cast<std::size_t>(worker)] = -1;
}

std::vector<int> VersionPlaces::readers() const {
  std::vector<int> readers;
  for (int worker = 0; worker < std::ssize(pins_); ++worker)
    if (pins_[static_cast<std::size_t>(worker)] >= 0) readers.push_back(worker);
  return readers;
}

std::vector<std::int64_t> VersionPlaces::newest() const {
  std::vector<std::int64_t> numbers;
  for (const std::int64_t version : versions_)
    if (version >= 0) numbers.push_back(version);
  std::ranges::sort(numbers);
  if (std::ssize(numbers) > num_versions_) numbers.erase(numbers.begin(), numbers.end() - num_versions_);
  return numbers;
}

bool VersionPlaces::is_pinned(std::int64_t version) const {
  return std::ranges::find(pins_, version) != pins_.end();
}

}  // namespace zero
