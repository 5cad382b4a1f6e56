#include "zero/engine/options/outer_fragments.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {

int fragment_that_begins(const LocalSteps& local, std::int64_t done) {
  if (done < 1) return -1;
  const std::int64_t steps = local.steps, number = local.fragments;
  for (int fragment = 0; fragment < local.fragments; ++fragment)
    if ((done - (fragment + 1) * steps / number) % steps == 0) return fragment;
  return -1;
}

int fragment_that_ends(const LocalSteps& local, std::int64_t done) {
  return fragment_that_begins(local, done - local.overlap);
}

int fragment_in_transfer(const LocalSteps& local, std::int64_t done) {
  for (int ago = 0; ago < local.overlap; ++ago)
    if (const int fragment = fragment_that_begins(local, done - ago); fragment >= 0) return fragment;
  return -1;
}

std::vector<int> units_of_fragment(const std::vector<Unit>& units, int fragments, int fragment) {
  std::vector<int> of_it;
  int place = 0;
  for (const Unit& unit : units)
    if (unit.trainable && place++ % fragments == fragment) of_it.push_back(unit.index);
  return of_it;
}

void require_fragments(const std::vector<Unit>& units, const LocalSteps& local) {
  const auto trainable = std::ranges::count_if(units, &Unit::trainable);
  if (local.fragments <= 1 || local.fragments <= trainable) return;
  throw ConfigError(
      "sync.fragments", fmt::format("{}", local.fragments),
      fmt::format("the model has {} units to train, and each fragment needs at least one unit", trainable),
      fmt::format("use at most {}", trainable));
}

}  // namespace zero
