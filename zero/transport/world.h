// World: the ranks of this run.
//
//   auto world = zero::World::from_environment();   // torchrun, mpirun, srun, zero launch, or one process
//
// The last collectives of each rank are kept. When the first CommError is met they are written as JSON, one file a
// rank, to the folder of keep_flight_in() or ZERO_FLIGHT_DIR: `zero doctor --flight FOLDER` names the rank at fault.
//
// Move-only; must outlive every engine attached to it.
#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/rendezvous/detect_ranks.h"

namespace zero {

class RecordedCommunicator;

struct WorldOptions {
  std::string transport = "auto";  // auto | in_process | shared_memory | mpi | gloo | nccl
  std::chrono::milliseconds timeout{60000};
  RankFlags ranks;  // what was said explicitly; comes before the environment
};

class World {
 public:
  // Takes a communicator of one's own. `local_world`: how many of its ranks share this machine.
  // `run`: a name that all its ranks have, for the records.
  explicit World(std::unique_ptr<Communicator> communicator, int local_world = 1, std::string source = "given",
                 const std::string& run = "");

  // Collective: returns when every rank has arrived. Throws ConfigError (an environment that makes no sense, an unknown
  // transport) or CommError (ranks that did not come).
  static World from_environment(const WorldOptions& options = {});
  // Local. One world a thread, all in this process: for tests.
  static std::vector<World> in_process(int world, const WorldOptions& options = {});

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->world(); }
  int local_size() const { return local_world_; }
  const std::string& source() const {
    return source_;
  }  // who started the ranks: "torchrun", "Open MPI", "one process", ...
  Communicator& communicator() { return *communicator_; }

  // Local. Where this rank's record goes on trouble; ZERO_FLIGHT_DIR goes before it. Made when it is needed.
  void keep_flight_in(const std::filesystem::path& folder);
  // Local. Writes the record for an error that ends this rank and is not of its peers. Nothing when there is no folder,
  // one rank alone, or it was written already. Never throws.
  void write_flight(const std::exception& error) noexcept;

 private:
  std::unique_ptr<Communicator> communicator_;
  RecordedCommunicator* recorded_ = nullptr;  // the same, where it is one
  int local_world_ = 1;
  std::string source_;
};

}  // namespace zero
