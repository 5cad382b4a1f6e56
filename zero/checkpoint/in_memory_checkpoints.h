// InMemoryCheckpoints: checkpoints in the launcher's memory, from which restarted ranks continue without a disk.
//
//   InMemoryCheckpoints kept(*LauncherMemory::of_environment(getenv), "runs/x");      // the run's name: its folder
//   kept.save(engine, 40, contents);          // every rank's shard, between two steps
//   // ... after a rank was killed, in new ranks:
//   load_checkpoint(engine, kept.path_of(40), kept.files_of(40));
//
// Each rank writes its file into its own memory, and gives the launcher the descriptor. After all ranks have done so,
// rank 0 adds the manifest, and one rename in the launcher publishes the checkpoint. Then the old one is removed. So
// whenever ranks are killed, the launcher holds the newest whole checkpoint, and perhaps the one before. Its memory
// ends with the launcher. On several machines, each launcher holds the files of its own ranks and the manifest. A new
// checkpoint is published at every launcher before any removes the old one. So whenever ranks are killed, all launchers
// have a checkpoint with the same manifest. If a launcher is lost, no checkpoint is whole: agree() then names a rank of
// that launcher. Memory is used alternately and holds all states twice. Destroy this object before the engine.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "zero/base/files/file.h"
#include "zero/base/process/allocation.h"
#include "zero/checkpoint/image/rank_image.h"
#include "zero/checkpoint/read/fetch_blocks.h"
#include "zero/checkpoint/read/launchers.h"
#include "zero/comm/launcher/launcher_memory.h"
#include "zero/memory/account/charge.h"
#include "zero/memory/io/file_calls.h"

namespace zero {

// The files of one kept checkpoint, for reading. A file of another machine has only the blocks that fetch() has copied.
// The rest of it is zeros, and takes no memory.
class InMemoryFiles final : public FileCalls {
 public:
  // `launchers`: set if there are several; null: one launcher holds all files.
  InMemoryFiles(LauncherMemory& memory, FetchFolders folders, const Launchers* launchers)
      : memory_(memory), folders_(std::move(folders)), launchers_(launchers) {}
  InMemoryFiles(const InMemoryFiles&) = delete;
  InMemoryFiles& operator=(const InMemoryFiles&) = delete;
  // Drops the fetched blocks. All ranks have read them by then.
  ~InMemoryFiles() override;
  // Opens the folder itself, which exists if its manifest does.
  int open(const std::string& path, int flags) const override;
  int open_in(int folder, const std::string& name, int flags) const override;

  // Collective; see LoadCalls::fetch. Does nothing with one launcher.
  void fetch(const EngineResources& engine, const CheckpointReader& reader);

 private:
  std::int64_t size_of_file(const std::string& name) const;

  LauncherMemory& memory_;
  FetchFolders folders_;
  const Launchers* launchers_;
  bool removes_ = false;
  Charge fetched_;
  mutable std::map<std::string, std::int64_t> sizes_;  // by name, after the manifest was read for them
};

class InMemoryCheckpoints {
 public:
  InMemoryCheckpoints(LauncherMemory memory, std::string_view run);
  // Collective. The ranks of `comm` may have several launchers.
  InMemoryCheckpoints(LauncherMemory memory, std::string_view run, Communicator& comm);
  InMemoryCheckpoints(const InMemoryCheckpoints&) = delete;
  InMemoryCheckpoints& operator=(const InMemoryCheckpoints&) = delete;

  // Collective; between steps. Returns false, and changes nothing, if a machine lacks memory for the files of its
  // ranks. Throws IoError on every rank if one failed; an earlier checkpoint, or this one, is then still whole.
  [[nodiscard]] bool save(RankEngine& engine, std::int64_t step, SaveContents contents);

  // Local. Returns the steps of checkpoints that are whole at this rank's launcher, the newest first.
  std::vector<std::int64_t> steps();
  bool has_several_launchers() const { return launchers_.has_value(); }  // Local
  struct Agreed {
    std::vector<std::int64_t> steps;  // whole at all launchers, the newest first
    std::int64_t partial = -1;        // newest step that some launcher lacks; -1: none
    int missing_rank = -1;            // the lowest rank of a launcher that does not have the same checkpoint
  };
  // Collective, called if there are several launchers. Throws IoError on every rank if a launcher cannot be asked.
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
  BlockSums fill(Room& room, RankEngine& engine, const RankImage& image);
  std::string unfinished() const { return prefix_ + std::string(kUnfinishedNames); }
  std::string fetched() const { return prefix_ + "/fetched" + std::string(kUnfinishedNames) + "files"; }
  void publish(Communicator& comm, std::int64_t step, const RankImage& image, const std::vector<std::string>& texts);
  void name(std::int64_t step, const std::string& manifest);
  void remove_others(std::int64_t step);
  std::vector<std::int64_t> steps_and_sums();

  LauncherMemory memory_;
  std::string prefix_;                  // prefix of all names, which keeps runs of one launcher apart
  std::optional<Launchers> launchers_;  // set if there are several
  std::array<Room, 2> rooms_;
  std::size_t newest_ = 0;
};

// Local. Returns the step in the name of a kept file; -1: not the manifest of a kept checkpoint. For code that observes
// the launcher's side.
std::int64_t kept_step(std::string_view name);

}  // namespace zero
