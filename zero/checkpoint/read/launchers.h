// Launchers: which ranks of a communicator one launcher has started, so they share its kept memory.
//
//   const Launchers launchers(comm, memory.launcher());     // ranks 0 and 1 on one machine, 2 and 3 on another
//   launchers.count()                                       // 2
//   launchers.of(3)                                         // 1: launchers are numbered by their lowest ranks
//   launchers.first_rank(1)                                 // 2: acts for its launcher
//
// Values; the constructor is Collective. Throws CommError.
#pragma once

#include <string_view>
#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

class Launchers {
 public:
  // `name`: the name of this rank's launcher (LauncherMemory::launcher()).
  Launchers(Communicator& comm, std::string_view name);

  int count() const { return static_cast<int>(first_ranks_.size()); }
  int of(int rank) const { return of_[static_cast<std::size_t>(rank)]; }
  int first_rank(int launcher) const { return first_ranks_[static_cast<std::size_t>(launcher)]; }
  bool is_first(int rank) const { return first_rank(of(rank)) == rank; }

 private:
  std::vector<int> of_;           // by rank
  std::vector<int> first_ranks_;  // by launcher
};

}  // namespace zero
