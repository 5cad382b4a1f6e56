// World: the ranks of this run.
//
//   auto world = zero::World::from_environment();   // torchrun, mpirun, srun, zero launch, or one process
//
// Each rank records its last collectives. At the first CommError it writes them as JSON, one file for each rank, into
// the folder of keep_flight_in() or ZERO_FLIGHT_DIR. `zero doctor --flight FOLDER` then names the rank at fault.
//
// Move-only; must outlive every engine attached to it. One thread at a time uses it and its engines: ConfigError.
#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/process/fork_mark.h"
#include "zero/base/process/thread_gate.h"
#include "zero/comm/communicator.h"
#include "zero/comm/rendezvous/detect_ranks.h"

namespace zero {

class RecordedCommunicator;

struct WorldOptions {
  std::string transport = "auto";  // auto | in_process | shared_memory | mpi | gloo | nccl: auto, and NCCL between GPUs
  std::chrono::milliseconds timeout{60000};
  RankFlags ranks;  // explicit values, which override the environment
};

class World {
 public:
  // Takes a communicator of your own. `local_world`: number of its ranks on this machine. `run`: name of the run for
  // the flight records, the same on all its ranks.
  explicit World(std::unique_ptr<Communicator> communicator, int local_world = 1, std::string source = "given",
                 const std::string& run = "");

  // Takes a group of the ranks of `of` (open_group()), which must outlive it. It writes no flight records: the group's
  // collectives are in those of `of`.
  World(std::unique_ptr<Communicator> group, const World& of);

  // Collective: returns when every rank has arrived. Throws ConfigError (an invalid environment, an unknown transport,
  // a timeout that is not above 0) or CommError (missing ranks).
  static World from_environment(const WorldOptions& options = {});
  World(World&&) noexcept = default;
  World& operator=(World&&) noexcept = default;
  // In a process that was forked from this rank, nothing is destroyed and nobody is told.
  ~World();

  // Local. Makes one world for each thread, all in this process: for tests.
  static std::vector<World> in_process(int world, const WorldOptions& options = {});

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->world(); }
  int local_size() const { return local_world_; }
  // Returns who started the ranks: "torchrun", "Open MPI", "one process", ...
  const std::string& source() const { return source_; }
  // Throws ConfigError in a process that was forked from this rank.
  Communicator& communicator() {
    made_here_.refuse_in_child(communicator_->rank());
    return *communicator_;
  }
  // Returns true if units on GPUs are exchanged directly between the GPUs, over NCCL (transport "nccl"). Everything
  // else uses communicator().
  bool links_devices() const { return links_devices_; }
  // Functions of this world's engines enter it while they run, and so do operators while they gather.
  ThreadGate& gate() const { return *gate_; }

  // Local. Sets the folder for this rank's flight record, unless ZERO_FLIGHT_DIR is set. The folder is made when a
  // record is written.
  void keep_flight_in(const std::filesystem::path& folder);
  // Local. Writes the flight record for an error of this rank that ends it. Does nothing without a folder, with a
  // single rank, in a forked process, or if the record was already written. Never throws.
  void write_flight(const std::exception& error) noexcept;

 private:
  std::unique_ptr<Communicator> communicator_;
  RecordedCommunicator* recorded_ = nullptr;  // the same communicator, if it records
  int local_world_ = 1;
  std::string source_;
  bool links_devices_ = false;
  std::unique_ptr<ThreadGate> gate_ = std::make_unique<ThreadGate>();
  ForkMark made_here_;
};

}  // namespace zero
