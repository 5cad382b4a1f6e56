// RunFiles: the paths of one run's files in its folder.
//
//   write_file(RunFiles("runs/shakespeare").report, json);
//
// Only paths: it reads and creates no file.
#pragma once

#include <filesystem>

#include "zero/checkpoint/checkpoint_folder.h"

namespace zero {

struct RunFiles {
  explicit RunFiles(std::filesystem::path run) : folder(std::move(run)) {}

  std::filesystem::path folder;
  std::filesystem::path config = folder / "config.toml";
  std::filesystem::path plan = folder / "plan.txt";
  std::filesystem::path metrics = folder / "metrics.jsonl";
  std::filesystem::path model = folder / "model.safetensors";
  std::filesystem::path averaged_model = folder / "model_ema.safetensors";
  std::filesystem::path report = folder / "report.json";
  std::filesystem::path preprocessing = folder / "preprocessor_config.json";  // for a model of images
  std::filesystem::path timeline = folder / "timeline.json";                  // of a run with an empty run.timeline
  std::filesystem::path pushes = folder / "pushes.log";                       // of a run with servers: push_log.h
  std::filesystem::path tensorboard = folder / "tensorboard";                 // event files
  std::filesystem::path launch = folder / ".launch";  // names of the launch that created the folder
  std::filesystem::path flight = folder / "flight";   // flight records of all ranks, after a failure
  CheckpointFolder checkpoints{folder / "checkpoints"};
};

}  // namespace zero
