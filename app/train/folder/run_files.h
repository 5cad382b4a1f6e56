// RunFiles: where the files of one run lie in its folder.
//
//   write_file(RunFiles("runs/shakespeare").report, json);
//
// Paths alone: looks at nothing, makes nothing.
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
  std::filesystem::path preprocessing = folder / "preprocessor_config.json";  // of a model of images
  std::filesystem::path timeline = folder / "timeline.json";                  // of a run whose run.timeline is empty
  std::filesystem::path pushes = folder / "pushes.log";                       // of a run with servers: push_log.h
  std::filesystem::path tensorboard = folder / "tensorboard";                 // event files
  std::filesystem::path launch = folder / ".launch";                          // whose ranks made it
  std::filesystem::path flight = folder / "flight";                           // of each rank, when one failed
  CheckpointFolder checkpoints{folder / "checkpoints"};
};

}  // namespace zero
