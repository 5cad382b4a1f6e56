// load_checkpoint(): the states of an engine as they were saved, whatever world, stage, placement or dtype saved them.
//
//   const LoadedCheckpoint loaded = load_checkpoint(engine, "runs/x/checkpoints/step-00000500");
//   loaded.manifest.run.at("step")
//
// Each rank reads the slices of its own states, in blocks of 4 MiB. Besides the states it holds some blocks (no more
// than the largest unit in fp32, but two at least), a tile, the manifest, and the extras that it returns. The next
// step has the bits that it would have had in the run that saved.
//
// Collective; between steps. Throws, on every rank alike: ConfigError for a checkpoint of another model or optimizer,
// before anything has changed; IoError where a rank finds it missing or damaged: if that was after `begin`, nothing of
// the engine's states may be used before another checkpoint is loaded whole.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "zero/checkpoint/loaded_checkpoint.h"
#include "zero/checkpoint/saved_states.h"
#include "zero/engine/engine.h"
#include "zero/memory/file_calls.h"

namespace zero {

class CheckpointReader;

using FetchCall = std::function<void(const CheckpointReader&)>;

// Calls of a load to its caller. If `check` throws, every rank throws, and nothing has changed.
struct LoadCalls {
  std::function<void(const Manifest&)> check = [](const Manifest&) {};
  // Collective: brings what the reader expects, and the extras of this rank's file, to where `calls` find it. Throws as
  // `check` does. Empty: all is there.
  FetchCall fetch = {};
  std::function<void()> begin = [] {};  // all checks have passed on every rank: states change from here on
};

// Local. The numbers in a checkpoint in `folder`, with the states `saved`, of those that an engine keeps: see
// SavedStates::find(). Throws ConfigError for a checkpoint of another optimizer.
std::vector<int> numbers_of_states(const std::filesystem::path& folder, const std::vector<std::string>& saved,
                                   const std::vector<std::string>& states, const ApartCopies& copies);

// The same in two parts: several engines check their checkpoints before one engine changes. Construction: all checks.
// fill(): states change. Both are Collective; `engine` and `calls` outlive it.
class CheckpointLoad {
 public:
  CheckpointLoad(Engine& engine, const std::filesystem::path& folder, const FileCalls& calls,
                 const std::function<void(const Manifest&)>& check);
  CheckpointLoad(const CheckpointLoad&) = delete;
  CheckpointLoad& operator=(const CheckpointLoad&) = delete;
  ~CheckpointLoad();

  const CheckpointReader& reader() const { return *reader_; }
  LoadedCheckpoint fill();

 private:
  Engine& engine_;
  std::filesystem::path folder_;
  std::unique_ptr<CheckpointReader> reader_;
  std::vector<int> tensors_, numbers_;
  std::size_t file_ = 0;  // whose extras this rank takes
};

LoadedCheckpoint load_checkpoint(Engine& engine, const std::filesystem::path& folder,
                                 const FileCalls& calls = FileCalls::kernel(), const LoadCalls& on = {});

}  // namespace zero
