// Factor extras: an engine's states of rows and columns (zero/engine/factor_states.h) in a checkpoint. Every rank holds them
// whole and writes them all, as extras called "factor/row_var/NAME" and "factor/col_var/NAME" after their parameter: so a rank
// of any world finds them in the file that it takes its extras from.
//
//   for (Extra& extra : factor_extras(engine)) contents.extras.push_back(std::move(extra));     // between steps
//   require_factors(file.extras, engine, path);       // before anything has changed
//   take_factors(loaded.extras, engine);
//
// Local.
#pragma once

#include <string>
#include <vector>

#include "zero/checkpoint/extra.h"
#include "zero/checkpoint/manifest.h"
#include "zero/engine/engine.h"

namespace zero {

std::vector<Extra> factor_extras(const Engine& engine);

// Throws ConfigError under "checkpoint" where one that the engine has is missing, or of another size.
void require_factors(const std::vector<SavedExtra>& saved, const Engine& engine, const std::string& path);

// Of extras that require_factors() has seen: they become the engine's states.
void take_factors(const std::vector<Extra>& extras, const Engine& engine);

}  // namespace zero
