#include "zero/engine/options/step_report.h"

#include <bit>

namespace zero {

// FNV-1a over the numbers. The counts come first, so numbers of one list are not those of the other.
std::uint64_t hash_of(const StepRates& rates) {
  std::uint64_t hash = 14695981039346656037ull;
  const auto add = [&](std::uint64_t number) { hash = (hash ^ number) * 1099511628211ull; };
  add(std::bit_cast<std::uint64_t>(rates.lr));
  for (const std::vector<double>* list : {&rates.by_group, &rates.decay_by_group}) {
    add(list->size());
    for (const double number : *list) add(std::bit_cast<std::uint64_t>(number));
  }
  return hash;
}

std::string_view name_of(SkipReason reason) {
  switch (reason) {
    case SkipReason::kNone:
      return "";
    case SkipReason::kOverflow:
      return "overflow";
    case SkipReason::kNonFinite:
      return "not finite";
    case SkipReason::kLossSpike:
      return "loss spike";
    case SkipReason::kNormSpike:
      return "norm spike";
  }
  return "";
}

}  // namespace zero
