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
//
// On several machines each launcher holds the files of its own ranks and the manifest. A new checkpoint gets its name at
// every launcher before the old one goes at any. So whenever ranks are killed, every launcher has one of the same
// manifest. Where a launcher is gone, no checkpoint is whole any more: agree() says so, and of which launcher.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "zero/base/allocation.h"
#include "zero/base/file.h"
#include "zero/checkpoint/fetch_blocks.h"
#include "zero/checkpoint/launchers.h"
#include "zero/checkpoint/rank_image.h"
#include "zero/launcher_memory/launcher_memory.h"
#include "zero/memory/charge.h"
#include "zero/memory/file_calls.h"

namespace zero {

// The files of one kept checkpoint, to be read. Of a file of another machine there is what fetch() has brought; all else
// of it is zeros, and takes no memory.
class InMemoryFiles final : public FileCalls {
 public:
  // `launchers`: where there are several; null: one holds all files.
  InMemoryFiles(LauncherMemory& memory, FetchFolders folders, const Launchers* launchers)
      : memory_(memory), folders_(std::move(folders)), launchers_(launchers) {}
  InMemoryFiles(const InMemoryFiles&) = delete;
  InMemoryFiles& operator=(const InMemoryFiles&) = delete;
  // What was fetched goes. All ranks have read it by then.
  ~InMemoryFiles() override;
  // The folder itself is there where its manifest is.
  int open(const std::string& path, int flags) const override;
  int open_in(int folder, const std::string& name, int flags) const override;

  // Collective; as LoadCalls::fetch. With one launcher it does nothing.
  void fetch(const EngineResources& engine, const CheckpointReader& reader);

 private:
  std::int64_t size_of_file(const std::string& name) const;

  LauncherMemory& memory_;
  FetchFolders folders_;
  const Launchers* launchers_;
  bool removes_ = false;
  Charge fetched_;
  mutable std::map<std::string, std::int64_t> sizes_;  // by name, when the manifest has been read for them
};

class InMemoryCheckpoints {
 public:
  InMemoryCheckpoints(LauncherMemory memory, std::string_view run);
  // Collective. The ranks of `comm` may have several launchers.
  InMemoryCheckpoints(LauncherMemory memory, std::string_view run, Communicator& comm);
  InMemoryCheckpoints(const InMemoryCheckpoints&) = delete;
  InMemoryCheckpoints& operator=(const InMemoryCheckpoints&) = delete;

  // Collective; between steps. False where a machine has no memory for those of its ranks: nothing has changed
  // then. Throws IoError, on every rank, where one failed: one that was there, or this one, is there.
  [[nodiscard]] bool save(Engine& engine, std::int64_t step, SaveContents contents);

  // Local. Those that are whole at this rank's launcher, the newest first.
  std::vector<std::int64_t> steps();
  bool has_several_launchers() const { return launchers_.has_value(); }  // Local
  struct Agreed {
    std::vector<std::int64_t> steps;  // whole at all launchers, the newest first
    std::int64_t partial = -1;        // the newest that is not; -1: none
    int missing_rank = -1;            // the lowest rank of a launcher that has not the same
  };
  // Collective, where there are several. Throws IoError, on every rank, where a launcher cannot be asked.
  Agreed agree(Communicator& comm);
  void remove(std::int64_t step);
  std::filesystem::path path_of(std::int64_t step) const;
  InMemoryFiles files_of(std::int64_t step) {
    return {memory_, {.kept = path_of(step).string(), .fetched = fetched()}, launchers_ ? &*launchers_ : nullptr};
  }

 private:
  struct Room {
    FileDescriptor file;
    Allocation memory;
    Charge charge;
  };
  BlockSums fill(Room& room, Engine& engine, const RankImage& image);
  std::string unfinished() const { return prefix_ + std::string(kUnfinishedNames); }
  std::string fetched() const { return prefix_ + "/fetched" + std::string(kUnfinishedNames) + "files"; }
  void publish(Communicator& comm, std::int64_t step, const RankImage& image, const std::vector<std::string>& texts);
  void name(std::int64_t step, const std::string& manifest);
  void remove_others(std::int64_t step);
  std::vector<std::int64_t> steps_and_sums();

  LauncherMemory memory_;
  std::string prefix_;                  // of all names: runs that one launcher starts are kept apart
  std::optional<Launchers> launchers_;  // several
  std::array<Room, 2> rooms_;
  std::size_t newest_ = 0;
};

// Local. The step of a kept file's name; -1: it is no manifest of a kept checkpoint. For who watches the launcher's
// side.
std::int64_t kept_step(std::string_view name);

}  // namespace zero
