// ReplacementPolicy: when a rank that failed while the others go on is started again, alone. Pure: a failure comes in, a
// time to wait comes out.
//
//   ReplacementPolicy policy(/*most=*/3);
//   policy.after(/*place=*/2, /*lived=*/90s)      0 s: at once
//   policy.after(2, 1s)                           0 s; then 1 s, 2 s, 4 s, ... 30 s: it keeps failing at its start
//   policy.after(2, 90s)                          nothing: three replacements are used up
//
// Local.
#pragma once

#include <chrono>
#include <map>
#include <optional>

namespace zero {

class ReplacementPolicy {
 public:
  // `most`: replacements of all places together.
  explicit ReplacementPolicy(int most) : most_(most) {}

  // Of a place whose process has ended `lived` after its start; nothing: it is not started again.
  std::optional<std::chrono::milliseconds> after(int place, std::chrono::milliseconds lived);
  int used() const { return used_; }
  int left() const { return most_ - used_; }
  // Replacements of this place.
  int of(int place) const;

 private:
  struct Place {
    int replacements = 0;
    int short_lives = 0;  // in a row
  };
  int most_;
  int used_ = 0;
  std::map<int, Place> places_;
};

}  // namespace zero
