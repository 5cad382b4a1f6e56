// open_whole_checkpoint(): opens the checkpoint that a user names, by its own folder or by the folder of its run.
//
//   CheckpointReader reader = open_whole_checkpoint("runs/x");                              // the newest whole one
//   CheckpointReader reader = open_whole_checkpoint("runs/x/checkpoints/step-00000500");    // this one
//   CheckpointReader reader = open_best_checkpoint("runs/x");                               // the best one
//
// Verifies every byte. For a run, logs a damaged checkpoint and tries the one before. Local. Throws ConfigError under
// "RUN" if there is no checkpoint, and IoError if the named checkpoint is damaged.
#pragma once

#include <filesystem>

#include "zero/checkpoint/read/checkpoint_reader.h"

namespace zero {

// Returns true if the contents of a folder are those of a checkpoint.
bool is_checkpoint(const std::filesystem::path& path);

CheckpointReader open_whole_checkpoint(const std::filesystem::path& path);

// Opens the checkpoint with the best validation loss or accuracy, which checkpoint.keep_best keeps. `run`: the folder
// of a run. Throws ConfigError under "--best" if no checkpoint of the run names the best one, or if that is missing.
CheckpointReader open_best_checkpoint(const std::filesystem::path& run);

}  // namespace zero
