// save_all(), load_all(): several engines in one checkpoint, all from one moment or none.
//
//   zero::save_all("run/checkpoint", {&generator_engine, &critic_engine});
//   const auto loaded = zero::load_all("run/checkpoint", {&generator_engine, &critic_engine});   // in the same order
//   loaded.front().manifest.steps
//
// `path` is a folder with an ordinary checkpoint for each engine: engine-0, engine-1 ... (docs/checkpoint_format.md).
// After a kill at any time the path has the older checkpoint or the new one. Each engine loads what Engine::load()
// would load: any world, stage, placement and dtype. A load checks all checkpoints before an engine changes. If a file
// is damaged, no engine can be used before another load.
//
// Collective; between steps. Throws ConfigError for no engine, an engine given twice, and engines of several worlds or
// with servers. Also for a checkpoint with another number of engines, or of another model or optimizer. Throws IoError
// as save() and load() do.
#pragma once

#include <filesystem>
#include <vector>

#include "zero/torch/attach.h"

namespace zero {

void save_all(const std::filesystem::path& path, const std::vector<Engine*>& engines);
std::vector<LoadedCheckpoint> load_all(const std::filesystem::path& path, const std::vector<Engine*>& engines);

}  // namespace zero
