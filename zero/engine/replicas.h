// Replicas: what every rank holds whole must be the same on all of them. Where it is not, memory or a wire changed a
// bit, and the ranks train different models from there on without anybody noticing.
//
//   std::vector<std::uint64_t> mine;                          // by unit: XXH3 over replicated states
//   for (const Unit& unit : state.units()) mine.push_back(replica_hash(state, unit.index));
//   ReplicaCheck check = compare_replicas(comm, mine, state.units());
//   if (!check.same()) say(check.describe());                 // "rank 2 differs in unit 3 (blocks.2)"
//
// At stage 0 parameters, master and moments are replicated, at stages 1 and 2 the parameters, at stage 3 nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/unit.h"

namespace zero {

class ShardedState;

struct ReplicaCheck {
  bool compared = false;   // false: one rank, or nothing that more than one holds
  std::vector<int> ranks;  // those that differ from the most that are alike, in any unit; all, where none are the most
  int unit = -1;           // the first in which some do
  std::string unit_name;

  bool same() const { return ranks.empty(); }
  std::string describe() const;
};

// Local. The same wherever the states lie. Throws IoError.
std::uint64_t replica_hash(ShardedState& state, int unit);

// Local. `hashes[rank][unit]`.
ReplicaCheck compare_hashes(const std::vector<std::vector<std::uint64_t>>& hashes, const std::vector<Unit>& units);

// Collective: one small exchange, counted as control traffic.
ReplicaCheck compare_replicas(Communicator& comm, std::span<const std::uint64_t> mine, const std::vector<Unit>& units);

}  // namespace zero
