#include "zero/engine/gather/shard_prefetches.h"

#include <algorithm>

namespace zero {

void ShardPrefetches::want(int unit) {
  if (!blocks_.read_by_peers()) return;
  wanted_.push_back(unit);
  pump();
}

void ShardPrefetches::pump() {
  while (!wanted_.empty() && !gathered_.holds(wanted_.front()) && is_current_(wanted_.front()) &&
         streams_.begin_prefetch(wanted_.front()))
    wanted_.pop_front();
}

// A prefetch that is already running serves this gather, so a request of the same unit is for a later gather.
void ShardPrefetches::gather_begins(int unit) {
  const auto wanted = std::ranges::find(wanted_, unit);
  if (wanted != wanted_.end() && !streams_.prefetches(unit)) wanted_.erase(wanted_.begin(), wanted + 1);
}

void ShardPrefetches::cancel() {
  wanted_.clear();
  streams_.cancel_prefetches();
}

}  // namespace zero
