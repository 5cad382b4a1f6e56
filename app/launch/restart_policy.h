// RestartPolicy: decides what follows a failed attempt.
//
//   RestartPolicy policy(/*max_restarts=*/3, /*min_ranks=*/2);
//   policy.after({.local_rank = 2, .step = 40}, /*ranks=*/4)    start again, all four
//   policy.after({.local_rank = 2, .step = 40}, 4)              go on with three: "rank 2 failed twice after step 40"
//
// A local rank is given up if it is to blame twice in a row at the same point of progress. It is also given up if no
// process can be started for it. Three failures in a row at the same point, without a local rank to give up, end the
// launch. Without known progress only the number of restarts ends the launch. A local rank that is to blame twice in a
// row is given up. A smaller world begins with new counts. A bad configuration (status 2) would fail again, so it ends
// the launch at once. It takes failures and returns decisions. Local; values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "zero/base/error/exit_status.h"

namespace zero {

struct Failure {
  int local_rank = -1;                 // -1: not known
  bool not_started = false;            // the system had no process for it; the ranks before it were started
  int status = kRankFailedStatus;      // exit_status() of the culprit
  std::optional<std::int64_t> step{};  // progress of the program; nullopt: not known
};

struct NextAttempt {
  enum class Kind { kStartAgain, kFewer, kEnd };
  Kind kind = Kind::kEnd;
  int most_ranks = 0;    // kFewer: the most ranks to start; min_ranks is the least
  std::string reason{};  // for kFewer; for kEnd if there is more to report than the failure
};

class RestartPolicy {
 public:
  // `min_ranks` 0: never fewer ranks.
  RestartPolicy(int max_restarts, int min_ranks) : max_restarts_(max_restarts), min_ranks_(min_ranks) {}

  NextAttempt after(const Failure& failure, int ranks);
  // Counts ranks that were started again by themselves as restarts.
  void count_replacements(int replacements) { restarts_ += replacements; }
  int left() const { return max_restarts_ - restarts_; }
  // Returns the number of decisions to start again, with all or with fewer ranks, and of replacements.
  int restarts() const { return restarts_; }

 private:
  void count(const Failure& failure);

  int max_restarts_;
  int min_ranks_;
  int restarts_ = 0;
  std::optional<std::int64_t> step_;  // of the last failure
  int local_rank_ = -1;               // of the last failure
  int failures_here_ = 0;             // in a row at that step
  int failures_of_rank_ = 0;          // in a row, of that local rank at that step
};

}  // namespace zero
