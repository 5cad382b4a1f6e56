// Replicas: states that several ranks hold, and that must be the same on all of these ranks.
//
//   ReplicaCheck check = compare_replicas(comms.run, comms.mesh, state);
//   if (!check.same()) say(check.describe());                 // "rank 2 differs in unit 3 (blocks.2)"
//
// If replicas differ, memory or a wire changed a bit, and the ranks silently train different models from then on. At
// stage 0 every rank holds parameters, master and moments whole; at stages 1 and 2 the parameters; at stage 3 nothing.
// At all stages every rank holds states of rows and columns (FactorStates). If there are copies of the model, each
// shard is held once in every copy. Copies that train apart are equal only in the states that their outer step shares.
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
  bool compared = false;  // false: one rank, or no state that several ranks hold
  // ranks that differ from the largest group of equal ranks, in any unit; all ranks, if no group is the largest
  std::vector<int> ranks;
  int unit = -1;  // first unit in which ranks differ
  std::string unit_name;

  bool same() const { return ranks.empty(); }
  std::string describe() const;
};

// XXH3 hashes of a unit's states on this rank.
struct HeldHash {
  std::uint64_t whole = 0;    // states that every rank holds whole
  std::uint64_t sharded = 0;  // this rank's shard of the sharded states
  std::uint64_t apart = 0;    // if copies train apart: states that every rank of a copy holds whole
};

// Local. Returns a hash that does not depend on the tiers of the states. Throws IoError.
std::uint64_t replica_hash(ShardedState& state, int unit, HeldStates which = HeldStates::kAll);

// Local. If copies train apart: returns whether this rank's shard of the unit has the bits of its anchor. Throws
// IoError.
bool weights_are_anchor(ShardedState& state, int unit);

// Local. `hashes[rank][unit]`.
ReplicaCheck compare_hashes(const std::vector<std::vector<std::uint64_t>>& hashes, const std::vector<Unit>& units);

// Local. Compares whole states over all ranks of the mesh, each shard over the copies, and a copy's own states over its
// ranks.
ReplicaCheck compare_hashes(const std::vector<std::vector<HeldHash>>& hashes, const Mesh& mesh,
                            const std::vector<Unit>& units);

// Collective over the run: one small exchange, counted as control traffic. Throws IoError.
ReplicaCheck compare_replicas(Communicator& run, const Mesh& mesh, ShardedState& state);

}  // namespace zero
