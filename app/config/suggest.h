// "did you mean": finds the nearest word to a word that does not exist.
//
//   nearest("schedlue", {"schedule", "train"})   "schedule"
//   nearest("xyzzy", ...)                        nothing: a far guess teaches nothing
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace zero {

// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that is nearest, when it is near enough to be a slip: a third of the letters at most. First of equals.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string_view> candidates);

// "did you mean 'x'? " when there is a near one, else empty: put it before a remedy.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace zero
