#include "app/launch/restart_policy.h"

#include <algorithm>

#include <fmt/format.h>

namespace zero {
namespace {

constexpr int kMostFailuresOfAPlace = 2;
constexpr int kMostFailuresAtOnePoint = 3;

std::string where(const std::optional<std::int64_t>& step) {
  if (!step) return "in a row";
  return *step > 0 ? fmt::format("after step {}", *step) : "with nothing to go on from";
}

}  // namespace

void RestartPolicy::count(const Failure& failure) {
  const bool same_point = failures_here_ > 0 && failure.step == step_;
  const bool same_rank = same_point && failure.local_rank >= 0 && failure.local_rank == local_rank_;
  failures_here_ = same_point ? failures_here_ + 1 : 1;
  failures_of_rank_ = same_rank ? failures_of_rank_ + 1 : 1;
  step_ = failure.step;
  local_rank_ = failure.local_rank;
}

NextAttempt RestartPolicy::after(const Failure& failure, int ranks) {
  if (failure.status == kBadInputStatus || restarts_ >= max_restarts_) return {};
  count(failure);
  if (failure.not_started || failures_of_rank_ == kMostFailuresOfAPlace) {
    // The system has no more processes than those that were started.
    const int most = failure.not_started ? std::min(failure.local_rank, ranks - 1) : ranks - 1;
    if (min_ranks_ > 0 && most >= min_ranks_) {
      failures_here_ = failures_of_rank_ = 0;
      ++restarts_;
      return {.kind = NextAttempt::Kind::kFewer,
              .most_ranks = most,
              .reason = failure.not_started
                            ? fmt::format("rank {} could not be started", failure.local_rank)
                            : fmt::format("rank {} failed twice {}", failure.local_rank, where(failure.step))};
    }
    if (failure.not_started) return {};
  }
  if (failure.step && failures_here_ == kMostFailuresAtOnePoint)
    return {.reason = fmt::format("{} failures in a row {}", failures_here_, where(failure.step))};
  ++restarts_;
  return {.kind = NextAttempt::Kind::kStartAgain};
}

}  // namespace zero
