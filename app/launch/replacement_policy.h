// ReplacementPolicy: decides when a failed rank is started again by itself while the other ranks continue.
//
//   ReplacementPolicy policy(/*most=*/3);
//   policy.after(/*local_rank=*/2, /*lived=*/90s)      0 s: at once
//   policy.after(2, 1s)                           0 s; then 1 s, 2 s, 4 s, ... 30 s: it keeps failing at its start
//   policy.after(2, 90s)                          nothing: three replacements are used up
//
// It takes failures and returns pauses, without a clock. Local; values only.
#pragma once

#include <chrono>
#include <map>
#include <optional>

namespace zero {

class ReplacementPolicy {
 public:
  // `most`: most replacements of all ranks together.
  explicit ReplacementPolicy(int most) : most_(most) {}

  // Returns the pause before the rank's process, which ended `lived` after its start, starts again; nullopt: it does
  // not.
  std::optional<std::chrono::milliseconds> after(int local_rank, std::chrono::milliseconds lived);
  int used() const { return used_; }
  int left() const { return most_ - used_; }
  // Returns the number of this rank's replacements.
  int of(int local_rank) const;

 private:
  struct Starts {
    int replacements = 0;
    int short_lives = 0;  // in a row
  };
  int most_;
  int used_ = 0;
  std::map<int, Starts> starts_;
};

}  // namespace zero
