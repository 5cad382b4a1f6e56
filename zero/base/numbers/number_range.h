// NumberRange: the values that a number of the options may have. NaN and infinity are never among them. A number must
// also be in range as fp32, the type in which updates compute.
//
//   constexpr NumberRange kDecay{.least = 0};
//   require_number("groups[1].weight_decay", decay, kDecay, "use for example 0.1");
//   // groups[1].weight_decay = nan: must be a finite number, 0 or more
//
// Local.
#pragma once

#include <limits>
#include <string>
#include <string_view>

namespace zero {

struct NumberRange {
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  bool above_least = false;  // the least is no value itself
  bool below_most = false;   // the most is no value itself

  bool contains(double value) const;
  std::string text() const;  // "a finite number, 0 or more and less than 1"
};

inline constexpr NumberRange kAtLeastZero{.least = 0}, kAboveZero{.least = 0, .above_least = true},
    kAtLeastOne{.least = 1}, kFractionOfOne{.least = 0, .most = 1, .below_most = true};

// Throws ConfigError for a value outside the range.
void require_number(std::string_view key, double value, const NumberRange& range, std::string_view remedy);

}  // namespace zero
