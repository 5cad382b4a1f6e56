// World: the ranks of this run.
//
//   auto world = zero::World::from_environment();   // torchrun, mpirun, srun, zero launch, or one process
//
// Move-only; must outlive every engine attached to it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/comm/rendezvous.h"

namespace zero {

struct WorldOptions {
  std::string transport = "auto";  // auto | in_process | shared_memory | mpi | gloo | nccl
  std::chrono::milliseconds timeout{60000};
  RankFlags ranks;  // what was said explicitly; comes before the environment
};

class World {
 public:
  // Takes a communicator of one's own. `local_world`: how many of its ranks share this machine.
  explicit World(std::unique_ptr<Communicator> communicator, int local_world = 1, std::string source = "given");

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

 private:
  std::unique_ptr<Communicator> communicator_;
  int local_world_ = 1;
  std::string source_;
};

}  // namespace zero
