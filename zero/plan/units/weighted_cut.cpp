#include "zero/plan/units/weighted_cut.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"
#include "zero/base/text/bytes.h"

namespace zero {
namespace {

// Returns where each owner's part of `blocks` begins, and where the last part ends. Every owner gets at least one
// block.
std::vector<std::int64_t> bounds_of(std::int64_t blocks, std::span<const double> weights) {
  const auto owners = static_cast<std::int64_t>(weights.size());
  blocks = std::max(blocks, owners);
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> bounds{0};
  double before = 0;
  for (std::int64_t owner = 1; owner < owners; ++owner) {
    before += weights[static_cast<std::size_t>(owner - 1)];
    const std::int64_t wanted = std::llround(static_cast<double>(blocks) * (before / all));
    bounds.push_back(std::clamp(wanted, bounds.back() + 1, blocks - (owners - owner)));
  }
  bounds.push_back(blocks);
  return bounds;
}

}  // namespace

std::vector<Unit> weighted_units(std::vector<Unit> units, std::span<const double> weights, int own) {
  for (Unit& unit : units) {
    ZERO_CHECK(unit.owned.empty() && unit.bounds.empty(), "{} is cut already", unit.name);
    const std::int64_t align = alignment_numel(unit);
    unit.bounds = bounds_of((unit.numel + align - 1) / align, weights);
    for (std::int64_t& bound : unit.bounds) bound *= align;
  }
  return as_seen_by(std::move(units), own);
}

std::vector<Unit> as_seen_by(std::vector<Unit> units, int own) {
  for (Unit& unit : units)
    if (!unit.bounds.empty()) unit.own = own;
  return units;
}

void require_weights(std::span<const double> weights, int owners, std::string_view key, std::string_view owner) {
  const auto refuse = [&](std::string_view reason) {
    throw ConfigError(
        key, fmt::format("[{}]", weights_text(weights)), reason,
        fmt::format("give a positive number for each of the {} that hold one copy of the model, for example "
                    "[{}]; or leave it out (\"auto\") to measure the memory of each {}",
                    format_count(owners, owner), fmt::join(std::vector<int>(static_cast<std::size_t>(owners), 1), ", "),
                    owner));
  };
  if (std::ssize(weights) != owners)
    refuse(fmt::format("{} for {}", format_count(std::ssize(weights), "weight"), format_count(owners, owner)));
  if (!std::ranges::all_of(weights, [](double weight) { return kAboveZero.contains(weight); }))
    refuse(fmt::format("each must be {}", kAboveZero.text()));
}

std::string weights_text(std::span<const double> weights) {
  return fmt::format("{}", fmt::join(weights, ", "));
}

}  // namespace zero
