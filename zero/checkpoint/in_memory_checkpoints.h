// InMemoryCheckpoints: checkpoints in memory that the launcher holds too, from which ranks that are started again go on
// without a disk.
//
//   InMemoryCheckpoints kept(*LauncherMemory::of_environment(getenv), "runs/x");      // the run's name: its folder
//   kept.save(engine, 40, contents);          // every rank's shard, between two steps
//   ...after a rank was killed, in new ranks:
//   load_checkpoint(engine, kept.path_of(40), kept.files_of(40));
//
// Each rank writes its file of a checkpoint into memory of its own, and gives the launcher the descriptor. When all
// ranks have, rank 0 adds the manifest, and one rename in the launcher makes the checkpoint true. Then the old
// checkpoint goes. So whenever ranks are killed, the launcher holds the newest whole checkpoint, and perhaps the one
// before. The memory of the last but one is used again: it holds all states twice, and goes before the engine.
// All is gone with the launcher.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "zero/base/allocation.h"
#include "zero/base/file.h"
#include "zero/checkpoint/rank_image.h"
#include "zero/launcher_memory/launcher_memory.h"
#include "zero/memory/charge.h"
#include "zero/memory/file_calls.h"

namespace zero {

// The files of one kept checkpoint, to be read.
class InMemoryFiles final : public FileCalls {
 public:
  InMemoryFiles(LauncherMemory& memory, std::string folder) : memory_(memory), folder_(std::move(folder)) {}
  // The folder itself is there where its manifest is.
  int open(const std::string& path, int flags) const override;
  int open_in(int folder, const std::string& name, int flags) const override;

 private:
  LauncherMemory& memory_;
  std::string folder_;
};

class InMemoryCheckpoints {
 public:
  InMemoryCheckpoints(LauncherMemory memory, std::string_view run);
  InMemoryCheckpoints(const InMemoryCheckpoints&) = delete;
  InMemoryCheckpoints& operator=(const InMemoryCheckpoints&) = delete;

  // Collective; between steps. False where a machine has no memory for those of its ranks: nothing has changed
  // then. Throws IoError, on every rank, where one failed: one that was there, or this one, is there.
  [[nodiscard]] bool save(Engine& engine, std::int64_t step, SaveContents contents);

  // Local. Those that are whole, the newest first.
  std::vector<std::int64_t> steps();
  void remove(std::int64_t step);
  std::filesystem::path path_of(std::int64_t step) const;
  InMemoryFiles files_of(std::int64_t step) { return {memory_, path_of(step).string()}; }

 private:
  struct Room {
    FileDescriptor file;
    Allocation memory;
    Charge charge;
  };
  BlockSums fill(Room& room, Engine& engine, const RankImage& image);
  std::string unfinished() const { return prefix_ + std::string(kUnfinishedNames); }
  void publish(std::int64_t step, const std::string& manifest);

  LauncherMemory memory_;
  std::string prefix_;  // of all names: runs that one launcher starts are kept apart
  std::array<Room, 2> rooms_;
  std::size_t newest_ = 0;
};

// Local. The step of a kept file's name; -1: it is no manifest of a kept checkpoint. For who watches the launcher's
// side.
std::int64_t kept_step(std::string_view name);

}  // namespace zero
