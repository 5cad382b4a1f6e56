#include "app/data/sample/held_out.h"

#include <cmath>
#include <map>
#include <numeric>

namespace zero {
namespace {

struct ClassCount {
  std::int64_t samples = 0;
  std::int64_t at_the_end = 0;  // samples of the class that the end of the data would hold out
};

bool end_is_fair(const std::map<std::int64_t, ClassCount>& classes, double fraction) {
  return std::ranges::all_of(classes, [fraction](const auto& entry) {
    const auto& [samples, end] = entry.second;
    const std::int64_t share = held_out_of_class(fraction, samples);
    return samples < 2 ? end == 0 : end >= 1 && end < samples && 2 * end >= share && end <= 2 * share;
  });
}

}  // namespace

// The small term removes the rounding error of a product that should be whole: 10 * 0.3 is 3.
std::int64_t held_out(double fraction, std::int64_t n) {
  const auto size = static_cast<double>(n);
  return static_cast<std::int64_t>(std::ceil(size * fraction - size * 1e-12));
}

std::int64_t held_out_of_class(double fraction, std::int64_t n) {
  if (n < 2 || fraction == 0) return 0;
  const auto nearest = static_cast<std::int64_t>(std::floor(static_cast<double>(n) * fraction + 0.5));
  return std::clamp<std::int64_t>(nearest, 1, n - 1);
}

HeldOut hold_out_classes(std::span<const std::int64_t> labels, double fraction, bool in_file_order) {
  const auto count = static_cast<std::int64_t>(labels.size());
  if (fraction == 0) return {};
  const std::int64_t end = held_out(fraction, count);
  std::map<std::int64_t, ClassCount> classes;
  for (std::int64_t i = 0; i < count; ++i) {
    ClassCount& found = classes[labels[static_cast<std::size_t>(i)]];
    ++found.samples;
    if (i >= count - end) ++found.at_the_end;
  }
  if (in_file_order && end_is_fair(classes, fraction)) return {.count = end};
  std::map<std::int64_t, std::int64_t> wanted;
  for (const auto& [label, found] : classes) wanted[label] = held_out_of_class(fraction, found.samples);
  HeldOut result;
  std::vector<bool> held(labels.size());
  for (std::size_t i = labels.size(); i-- > 0;) {
    held[i] = wanted[labels[i]]-- > 0;
    if (held[i]) ++result.count;
  }
  result.order.resize(labels.size());
  std::iota(result.order.begin(), result.order.end(), 0);
  std::stable_partition(result.order.begin(), result.order.end(),
                        [&](std::int64_t i) { return !held[static_cast<std::size_t>(i)]; });
  return result;
}

}  // namespace zero
