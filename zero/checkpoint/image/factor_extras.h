// factor_extras(): states of rows and columns (zero/engine/states/factor_states.h) as extras of a checkpoint.
//
//   for (Extra& extra : factor_extras(engine)) contents.extras.push_back(std::move(extra));     // between steps
//   const auto files = files_of_factors(manifest.files, own_file, engine, path);    // before anything has changed
//   for (const std::size_t file : files) take_factors(reader.read_extras(file), engine);
//
// The extras of a parameter NAME are called "factor/row_var/NAME" and "factor/col_var/NAME". Every rank holds these
// states whole, and writes all of them. So a rank of any world finds them in the file from which it takes its extras.
// If a pipeline saved, a file has those of one section. Local.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "zero/checkpoint/image/manifest.h"
#include "zero/engine/rank_engine.h"

namespace zero {

std::vector<Extra> factor_extras(const RankEngine& engine);

// Returns the files whose extras have the engine's states: `own` for all that it has, else the first file that has
// one. Throws ConfigError under "checkpoint" if a state of the engine is missing, or has another size.
std::set<std::size_t> files_of_factors(const std::vector<SavedFile>& files, std::size_t own, const RankEngine& engine,
                                       const std::string& path);

// Copies those of the extras that are states of the engine. files_of_factors() has checked them.
void take_factors(const std::vector<Extra>& extras, const RankEngine& engine);

}  // namespace zero
