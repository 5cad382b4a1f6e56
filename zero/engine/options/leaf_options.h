// settle_leaves(), leaves_of(): the options of a step in leaves (AttachOptions::leaves, zero/plan/units/leaves.h).
//
//   options = settle_leaves(options, world);         // accumulate and reduce follow from leaves
//   leaves_of(options, world)->leaf(rank, micro);
//
// Local. Values only.
#pragma once

#include <optional>

#include "zero/engine/options/options.h"
#include "zero/plan/units/leaves.h"

namespace zero {

// Returns the options with the `accumulate` and `reduce` of these ranks; unchanged without leaves. Throws ConfigError
// under "train.leaves" if the ranks cannot share the leaves, or if another option would let the bits depend on them.
AttachOptions settle_leaves(AttachOptions options, int world);

// Throws ConfigError under "train.leaves" if another option would let the bits depend on the ranks. No-op without
// leaves.
void require_leaves(const AttachOptions& options);

// Returns the leaves of these ranks; empty without leaves. `options` must be settled.
std::optional<Leaves> leaves_of(const AttachOptions& options, int world);

}  // namespace zero
