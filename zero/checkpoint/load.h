// load_checkpoint(): loads the states of an engine, whatever world, stage, placement or dtype saved them.
//
//   const LoadedCheckpoint loaded = load_checkpoint(engine, "runs/x/checkpoints/step-00000500");
//   loaded.manifest.run.at("step")
//
// Each rank reads the slices of its own states, in blocks of 4 MiB. Beside the states it holds a tile, the manifest,
// and the extras that it returns. It also holds some blocks: at least two, at most the largest unit in fp32. The next
// step has the same bits as in the run that saved.
//
// Collective; between steps. Throws on every rank. ConfigError: the checkpoint is of another model or optimizer, and
// nothing has changed. IoError: a rank finds the checkpoint missing or damaged. If that happens after `begin`, the
// engine's states may not be used before another checkpoint is loaded whole.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "zero/checkpoint/image/saved_states.h"
#include "zero/checkpoint/read/loaded_checkpoint.h"
#include "zero/engine/rank_engine.h"
#include "zero/memory/io/file_calls.h"

namespace zero {

class CheckpointReader;

using FetchCall = std::function<void(const CheckpointReader&)>;

// Callbacks of a load. If `check` throws, every rank throws, and nothing has changed.
struct LoadCalls {
  std::function<void(const Manifest&)> check = [](const Manifest&) {};
  // Collective: copies the blocks that the reader expects, and the extras of this rank's file, to where `calls` finds
  // them. If it throws, nothing has changed. Empty: all blocks are there.
  FetchCall fetch = {};
  std::function<void()> begin = [] {};  // all checks have passed on every rank; states change after this
};

// Local. Returns the numbers of an engine's states in the checkpoint `folder`, whose states are `saved`; see
// SavedStates::find(). Throws ConfigError if the checkpoint is of another optimizer.
std::vector<int> numbers_of_states(const std::filesystem::path& folder, const std::vector<std::string>& saved,
                                   const std::vector<std::string>& states, const ApartCopies& copies);

// The same in two parts: several engines check their checkpoints before one engine changes. Construction: all checks.
// fill(): states change. Both are Collective; `engine` and `calls` outlive it. `whole_model`: if the engine has only a
// part of the model, the names of all its parameters, which the checkpoint may hold too. Empty: the engine has all.
class CheckpointLoad {
 public:
  CheckpointLoad(RankEngine& engine, const std::filesystem::path& folder, const FileCalls& calls,
                 const std::function<void(const Manifest&)>& check, std::span<const std::string> whole_model = {});
  CheckpointLoad(const CheckpointLoad&) = delete;
  CheckpointLoad& operator=(const CheckpointLoad&) = delete;
  ~CheckpointLoad();

  const CheckpointReader& reader() const { return *reader_; }
  LoadedCheckpoint fill();

 private:
  RankEngine& engine_;
  std::filesystem::path folder_;
  std::unique_ptr<CheckpointReader> reader_;
  std::vector<int> tensors_, numbers_;
  std::size_t file_ = 0;                // whose extras this rank takes
  std::set<std::size_t> factor_files_;  // whose extras have states of rows and columns
};

LoadedCheckpoint load_checkpoint(RankEngine& engine, const std::filesystem::path& folder,
                                 const FileCalls& calls = FileCalls::kernel(), const LoadCalls& on = {});

}  // namespace zero
