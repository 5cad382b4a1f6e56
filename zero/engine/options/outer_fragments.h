// Outer fragments: the units that an outer step merges, and the steps after which it does so (Streaming DiLoCo).
//
//   const LocalSteps local{.steps = 50, .fragments = 5, .overlap = 4};
//   fragment_that_begins(local, 10);                // 0: the first fragment: outer steps after 10, 60, 110, ...
//   fragment_that_ends(local, 14);                  // 0: four steps later its result is applied to the weights
//   units_of_fragment(units, 5, 0);                 // trainable units 0, 5, 10, ...
//
// Fragment f of F has outer steps after steps floor((f + 1) H / F), that plus H, that plus 2 H, ... So each unit has an
// outer step every H steps, and with one fragment all units have it after H steps. At most one fragment is exchanged at
// a time. Paper: Douillard et al., arXiv 2501.18512. Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/optim/outer_step.h"
#include "zero/plan/units/unit.h"

namespace zero {

// Return a fragment; -1: none. `done`: steps taken or skipped.
int fragment_that_begins(const LocalSteps& local, std::int64_t done);
int fragment_that_ends(const LocalSteps& local, std::int64_t done);
// Returns the fragment whose differences were taken, and whose result is not yet applied to the weights.
int fragment_in_transfer(const LocalSteps& local, std::int64_t done);

std::vector<int> units_of_fragment(const std::vector<Unit>& units, int fragments, int fragment);

// Throws ConfigError under "sync.fragments" if a fragment would be empty.
void require_fragments(const std::vector<Unit>& units, const LocalSteps& local);

}  // namespace zero
