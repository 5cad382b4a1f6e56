// factor_extras(): states of rows and columns (zero/engine/states/factor_states.h) as extras of a checkpoint.
//
//   for (Extra& extra : factor_extras(engine)) contents.extras.push_back(std::move(extra));     // between steps
//   require_factors(file.extras, engine, path);       // before anything has changed
//   take_factors(loaded.extras, engine);
//
// The extras of a parameter NAME are called "factor/row_var/NAME" and "factor/col_var/NAME". Every rank holds these
// states whole, and writes all of them. So a rank of any world finds them in the file from which it takes its extras.
// Local.
#pragma once

#include <string>
#include <vector>

#include "zero/checkpoint/image/extra.h"
#include "zero/checkpoint/image/manifest.h"
#include "zero/engine/rank_engine.h"

namespace zero {

std::vector<Extra> factor_extras(const RankEngine& engine);

// Throws ConfigError under "checkpoint" if a state of the engine is missing, or has another size.
void require_factors(const std::vector<SavedExtra>& saved, const RankEngine& engine, const std::string& path);

// Copies extras into the engine's states. require_factors() has checked them.
void take_factors(const std::vector<Extra>& extras, const RankEngine& engine);

}  // namespace zero
