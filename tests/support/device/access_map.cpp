#include "tests/support/device/access_map.h"

#include <algorithm>
#include <iterator>

namespace zero {

std::vector<Conflict> AccessMap::conflicts(const DeviceOperation& by, const Access& access) const {
  std::vector<Conflict> found;
  const std::byte* const begin = access.bytes.data();
  const std::byte* const end = begin + access.bytes.size();
  const auto look = [&](const Last& last, bool writes, const std::byte* from, const std::byte* to) {
    for (const std::shared_ptr<const DeviceOperation>& earlier : last) {
      if (earlier == nullptr || by.comes_after(*earlier)) continue;
      if (std::ranges::find(found, earlier, &Conflict::earlier) == found.end())
        found.push_back({earlier, writes, {from, to}});
    }
  };
  auto at = segments_.upper_bound(begin);
  if (at != segments_.begin()) --at;
  for (; at != segments_.end() && at->first < end; ++at) {
    const std::byte *from = std::max(begin, at->first), *to = std::min(end, at->second.end);
    if (from >= to) continue;
    look(at->second.writers, true, from, to);
    if (access.writes) look(at->second.readers, false, from, to);
  }
  return found;
}

void AccessMap::record(const std::shared_ptr<const DeviceOperation>& by, const Access& access) {
  if (access.bytes.empty()) return;
  const std::byte* const begin = access.bytes.data();
  const std::byte* const end = begin + access.bytes.size();
  const auto forget_covered = [&](Last& last) {
    for (std::shared_ptr<const DeviceOperation>& earlier : last)
      if (earlier != nullptr && by->comes_after(*earlier)) earlier.reset();
  };
  auto previous = segments_.end();
  for (auto at = cover(begin, end); at != segments_.end() && at->first < end;) {
    Segment& segment = at->second;
    if (access.writes) {  // an operation after this write is also after all accesses that the write covers
      forget_covered(segment.writers);
      forget_covered(segment.readers);
      segment.writers[by->actor] = by;
    } else {
      segment.readers[by->actor] = by;
    }
    if (previous != segments_.end() && previous->second.writers == segment.writers &&
        previous->second.readers == segment.readers) {
      previous->second.end = segment.end;
      at = segments_.erase(at);
    } else {
      previous = at++;
    }
  }
}

void AccessMap::forget(std::span<const std::byte> bytes) {
  const std::byte* const end = bytes.data() + bytes.size();
  for (auto at = cover(bytes.data(), end); at != segments_.end() && at->first < end;) at = segments_.erase(at);
}

AccessMap::Segments::iterator AccessMap::cover(const std::byte* begin, const std::byte* end) {
  cut(begin);
  cut(end);
  for (const std::byte* at = begin; at < end;) {
    const auto next = segments_.lower_bound(at);
    const std::byte* const hole_end = next == segments_.end() ? end : std::min(end, next->first);
    if (at < hole_end) segments_[at].end = hole_end;
    at = segments_.at(at).end;
  }
  return segments_.find(begin);
}

void AccessMap::cut(const std::byte* at) {
  auto after = segments_.lower_bound(at);
  if (after == segments_.begin()) return;
  const auto before = std::prev(after);
  if (before->second.end <= at) return;
  Segment rest = before->second;
  before->second.end = at;
  segments_.emplace_hint(after, at, std::move(rest));
}

}  // namespace zero
