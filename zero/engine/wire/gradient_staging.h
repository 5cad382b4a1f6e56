// staging_limit(): bytes of staging that gradients may take on their way into a reduction. Local.
//
//   most = staging_limit(units, world, budget.is_min());
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/units/unit.h"

namespace zero {

// Of the flat gradient of the largest unit; 0 where none is trained.
std::int64_t largest_gradient(const std::vector<Unit>& units, int world);

// One unit's flat range fills and, without `min_budget`, another is reduced. If more ranges begin to fill (gradients that
// come before their turn, a unit whose gradients come far apart), reductions are waited for sooner. With `min_budget` there
// is none to wait for, and the units of one block fill together: beside the largest block (Unit::repeated) a second
// embedding counts, or any other unit. A model whose units are declared in another order than they are used takes more
// in its first step.
std::int64_t staging_limit(const std::vector<Unit>& units, int world, bool min_budget);

}  // namespace zero
