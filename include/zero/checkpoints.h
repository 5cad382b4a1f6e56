// CheckpointFolder: the checkpoints of a run by step.
//
//   engine.save(folder.path_of(500));
//   zero::save_all(folder.path_of(500), {&generator, &discriminator});   // several engines, as one transaction
//   for (const auto& [step, path] : zero::CheckpointFolder("run/checkpoints").list()) ...   // the newest first
#pragma once

#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/read/loaded_checkpoint.h"
#include "zero/torch/save_all.h"
