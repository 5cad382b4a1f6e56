// Outer fragments: which trainable units an outer step merges, and after which steps (Streaming DiLoCo: Douillard et al.,
// arXiv 2501.18512).
//
//   const LocalSteps local{.steps = 50, .fragments = 5, .overlap = 4};
//   fragment_that_begins(local, 10);                // 0: the first fragment has its outer step after 10, 60, 110, ... steps
//   fragment_that_ends(local, 14);                  // 0: four steps later its result goes into the weights
//   units_of_fragment(units, 5, 0);                 // trainable units 0, 5, 10, ...
//
// Fragment f of F has outer steps after steps floor((f + 1) H / F), that and H, that and 2 H, ...: so each unit has one every
// H steps, and with one fragment all have it after H. At most one fragment is on its way at a time.
//
// Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/optim/outer_step.h"
#include "zero/plan/units/unit.h"

namespace zero {

// `done`: steps that were taken or skipped. -1: no fragment.
int fragment_that_begins(const LocalSteps& local, std::int64_t done);
int fragment_that_ends(const LocalSteps& local, std::int64_t done);

std::vector<int> units_of_fragment(const std::vector<Unit>& units, int fragments, int fragment);

// Throws ConfigError under "sync.fragments" where a fragment would be empty.
void require_fragments(const std::vector<Unit>& units, const LocalSteps& local);

}  // namespace zero
