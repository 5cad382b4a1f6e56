// nearest(): finds an existing word that is similar to an unknown word.
//
//   nearest("schedlue", {"schedule", "train"})   "schedule"
//   nearest("xyzzy", ...)                        nothing: no candidate is similar
//
// Local.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace zero {

// Counts insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns the nearest candidate if at most a third of the letters differ; the first of several equally near candidates.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string_view> candidates);

// Returns "did you mean 'x'? " if there is a similar candidate, else an empty text. Put it before a remedy.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace zero
