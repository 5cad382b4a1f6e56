#include "app/launch/replacement_policy.h"

#include <algorithm>

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortLife{10'000};
constexpr milliseconds kFirstPause{1000}, kLongestPause{30'000};

}  // namespace

std::optional<milliseconds> ReplacementPolicy::after(int local_rank, milliseconds lived) {
  if (used_ >= most_) return std::nullopt;
  ++used_;
  Starts& at = starts_[local_rank];
  ++at.replacements;
  at.short_lives = lived < kShortLife ? at.short_lives + 1 : 0;
  if (at.short_lives < 2) return milliseconds(0);
  return std::min(kLongestPause, kFirstPause * (1 << std::min(at.short_lives - 2, 5)));
}

int ReplacementPolicy::of(int local_rank) const {
  const auto found = starts_.find(local_rank);
  return found == starts_.end() ? 0 : found->second.replacements;
}

}  // namespace zero
