// Replicas: what several ranks hold must be the same on all of them. Where it is not, memory or a wire changed a bit, and
// the ranks train different models from there on without anybody noticing.
//
//   ReplicaCheck check = compare_replicas(comms.run, comms.mesh, state);
//   if (!check.same()) say(check.describe());                 // "rank 2 differs in unit 3 (blocks.2)"
//
// At stage 0 every rank holds parameters, master and moments whole, at stages 1 and 2 the parameters, at stage 3
// nothing; at all stages states of rows and columns (FactorStates). Where there are copies of the model, each shard is held
// once in every copy. Copies that train apart are alike in the states that their outer step shares, and in nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/states/state_contents.h"
#include "zero/plan/units/mesh.h"
#include "zero/plan/units/unit.h"

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

// XXH3 over the states of a unit that this rank holds.
struct HeldHash {
  std::uint64_t whole = 0;    // what every rank holds whole
  std::uint64_t sharded = 0;  // this rank's shard of what is sharded
  std::uint64_t apart = 0;    // what every rank of its copy holds whole, where copies train apart
};

// Local. The same wherever the states lie. Throws IoError.
std::uint64_t replica_hash(ShardedState& state, int unit, HeldStates which = HeldStates::kAll);

// Local. `hashes[rank][unit]`.
ReplicaCheck compare_hashes(const std::vector<std::vector<std::uint64_t>>& hashes, const std::vector<Unit>& units);

// Local. What is whole over all ranks of the mesh, each shard over the copies, and what is a copy's own over its ranks.
ReplicaCheck compare_hashes(const std::vector<std::vector<HeldHash>>& hashes, const Mesh& mesh,
                            const std::vector<Unit>& units);

// Collective over the run: one small exchange, counted as control traffic. Throws IoError.
ReplicaCheck compare_replicas(Communicator& run, const Mesh& mesh, ShardedState& state);

}  // namespace zero
