// staging_limit(): computes the bytes of staging that gradients may use before a reduction. Local.
//
//   most = staging_limit(units, world, budget.is_min());
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/units/unit.h"

namespace zero {

// Returns the bytes of the flat gradient of the largest unit; 0 if no unit is trained.
std::int64_t largest_gradient(const std::vector<Unit>& units, int world);

// Without `min_budget` there is room for two flat ranges: one that fills, and one that is reduced. If more ranges begin
// to fill (early gradients, or a unit whose gradients are far apart), reductions are waited for sooner. With
// `min_budget` no reduction runs meanwhile, and the units of one block fill together. The limit then counts the largest
// block (Unit::repeated) plus a second embedding or another unit. If units are declared in another order than they are
// used, the first step takes more.
std::int64_t staging_limit(const std::vector<Unit>& units, int world, bool min_budget);

}  // namespace zero
