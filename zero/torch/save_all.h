// save_all(), load_all(): several engines in one checkpoint, all of one moment or none.
//
//   zero::save_all("run/checkpoint", {&generator_engine, &critic_engine});
//   const auto loaded = zero::load_all("run/checkpoint", {&generator_engine, &critic_engine});   // in the same order
//   loaded.front().manifest.steps
//
// The path is a folder with a checkpoint of each engine, engine-0, engine-1 and so on, which other programs read as any
// checkpoint (docs/checkpoint_format.md). A kill at any time leaves the older checkpoint at the path, or the new one. A load
// checks all of them before an engine changes; if a file is damaged, no engine can be used before another load.
//
// Each engine loads what Attachment::load() would: any world, stage, placement and dtype.
//
// Collective; between steps. Throws ConfigError: no engine, one twice, engines of several worlds or with servers, a
// checkpoint of another number of engines, of another model or optimizer. Throws IoError as save() and load() do.
#pragma once

#include <filesystem>
#include <vector>

#include "zero/torch/attach.h"

namespace zero {

void save_all(const std::filesystem::path& path, const std::vector<Attachment*>& engines);
std::vector<LoadedCheckpoint> load_all(const std::filesystem::path& path, const std::vector<Attachment*>& engines);

}  // namespace zero
