// RestartPolicy: decides what follows a failed attempt. Pure: a failure comes in, a decision comes out.
//
//   RestartPolicy policy(/*max_restarts=*/3, /*min_ranks=*/2);
//   policy.after({.place = 2, .step = 40}, /*ranks=*/4)    start again, all four
//   policy.after({.place = 2, .step = 40}, 4)              go on with three: "rank 2 failed twice after step 40"
//
// A place (a local rank) is given up when it is to blame twice in a row at the same point of progress, or when no
// process can be started for it. Three failures in a row at the same point with nothing to give up end the launch;
// where progress is not known that is never so, and every failure counts as one at the same point for its place. Counts
// begin anew with a smaller world. A bad configuration (status 2) is the same the next time: it ends the launch at
// once. Local.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "zero/base/exit_status.h"

namespace zero {

struct Failure {
  int place = -1;                      // local rank; -1: nobody knows
  bool not_started = false;            // the system had no process for it; those before it were started
  int status = kRankFailedStatus;      // exit_status() of the culprit
  std::optional<std::int64_t> step{};  // how far the program had come
};

struct NextAttempt {
  enum class Kind { kStartAgain, kFewer, kEnd };
  Kind kind = Kind::kEnd;
  int most_ranks = 0;    // kFewer: the most ranks to start; min_ranks is the least
  std::string reason{};  // kFewer, and kEnd when there is more to say than that it failed
};

class RestartPolicy {
 public:
  // `min_ranks` 0: never fewer.
  RestartPolicy(int max_restarts, int min_ranks) : max_restarts_(max_restarts), min_ranks_(min_ranks) {}

  NextAttempt after(const Failure& failure, int ranks);
  // Ranks that were started again alone: they count as restarts.
  void count_replacements(int replacements) { restarts_ += replacements; }
  int left() const { return max_restarts_ - restarts_; }
  // Number of decisions so far to start again or with fewer ranks, and of replacements.
  int restarts() const { return restarts_; }

 private:
  void count(const Failure& failure);

  int max_restarts_;
  int min_ranks_;
  int restarts_ = 0;
  std::optional<std::int64_t> step_;  // of the last failure
  int place_ = -1;                    // of the last failure
  int failures_here_ = 0;             // in a row at that step
  int failures_of_place_ = 0;         // in a row at that step and place
};

}  // namespace zero
