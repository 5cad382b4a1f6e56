#include "zero/memory/account/arena.h"

#include <algorithm>
#include <iterator>

#include "zero/base/error/check.h"
#include "zero/base/process/pages.h"

namespace zero {

Arena::Arena(std::size_t address_bytes) {
  if (address_bytes < kGranule) return;
  addresses_ = reserve_addresses(address_bytes / kGranule * kGranule);
  if (addresses_) holes_.emplace(0, addresses_.size());
}

bool Arena::extend_to(std::size_t end) {
  if (end <= writable_bytes_) return true;
  constexpr std::size_t kStep = std::size_t{64} << 20;
  const std::size_t wanted = std::min((end + kStep - 1) / kStep * kStep, addresses_.size());
  if (!make_writable(addresses_.bytes().subspan(writable_bytes_, wanted - writable_bytes_))) return false;
  writable_bytes_ = wanted;
  return true;
}

std::byte* Arena::allocate(std::size_t bytes) {
  if (bytes > addresses_.size()) return nullptr;
  bytes = std::max((bytes + kGranule - 1) / kGranule * kGranule, kGranule);
  const std::scoped_lock lock(mutex_);
  const auto hole = std::find_if(holes_.begin(), holes_.end(), [bytes](const auto& h) { return h.second >= bytes; });
  if (hole == holes_.end() || !extend_to(hole->first + bytes)) return nullptr;
  const auto [offset, size] = *hole;
  holes_.erase(hole);
  if (size > bytes) holes_.emplace(offset + bytes, size - bytes);
  blocks_.emplace(offset, bytes);
  touched_bytes_ = std::max(touched_bytes_, offset + bytes);
  return addresses_.data() + offset;
}

void Arena::release(std::byte* block) {
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(static_cast<std::size_t>(block - addresses_.data()));
  ZERO_CHECK(found != blocks_.end(), "a block was released that is not in use");
  auto [offset, bytes] = *found;
  blocks_.erase(found);
  auto after = holes_.lower_bound(offset);
  if (after != holes_.end() && offset + bytes == after->first) {
    bytes += after->second;
    after = holes_.erase(after);
  }
  if (after != holes_.begin()) {
    if (const auto before = std::prev(after); before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  holes_.emplace(offset, bytes);
}

bool Arena::holds(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return addresses_ && at >= addresses_.data() && at < addresses_.data() + addresses_.size();
}

std::size_t Arena::touched_bytes() const {
  const std::scoped_lock lock(mutex_);
  return touched_bytes_;
}

}  // namespace zero
