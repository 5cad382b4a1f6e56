// EngineComms: the communicators of an engine: the ranks of the run, and the ranks that hold one copy of the model.
//
//   EngineComms comms(world, options.group);
//   comms.copy.rank()          // number of this rank's shard
//   comms.run.rank() == 0      // prints for all ranks
//
// Offsets of shards concern the copy; gathers of units and sums of their gradients go over `units`, the same ranks.
// Losses, errors, budgets and steps, on which all ranks must agree, concern the run. Sums of gradients also go over
// copies (GradientSum). If there is one copy of the model, the copy is the run. `secondary` is the group of the copy's
// ranks that together keep all secondary parts of weights (zero/plan/units/secondary.h). If the host cannot read the
// device, a unit is exchanged as soon as its bytes are in main memory. That is at different moments on each rank.
// Collectives of a communicator are numbered in order, and these exchanges need numbers of their own. So `units` is a
// group of the copy's ranks, if the transport has groups. Construction is Collective; everything else Local. Throws
// ConfigError under "zero.group", CommError.
#pragma once

#include <memory>

#include "zero/comm/communicator.h"
#include "zero/plan/units/mesh.h"

namespace zero {

class EngineComms {
 private:
  std::unique_ptr<Communicator> own_copy_, own_across_;  // null: there is one copy of the model
  std::unique_ptr<Communicator> own_units_;              // null: units share the numbers of all other collectives
  std::unique_ptr<Communicator> own_secondary_;          // null: no secondary parts are kept

 public:
  // `group`: ranks that hold one copy of the model; 0: all. `secondary_group`: neighbours among these that keep parts,
  // a divisor of `group`; 0: none.
  EngineComms(Communicator& run, int group, bool units_apart = false, int secondary_group = 0);

  const Mesh mesh;
  Communicator& run;
  Communicator& copy;
  // The copy's ranks, for gathers of units and sums of their gradients.
  Communicator& units;
  // The ranks that hold the same shard in other copies; a rank's number there is its copy's. Null: no other copies.
  Communicator* const across;
  Communicator* const secondary;  // null: no secondary parts

  bool units_apart() const { return own_units_ != nullptr; }
  int copy_number() const { return mesh.copy_of(run.rank()); }

  // Return the bytes so far, in the run and its groups. Bytes between copies are a part of the first.
  Traffic traffic() const;
  std::int64_t sent_between_copies() const { return across == nullptr ? 0 : across->traffic().sent_bytes; }
  std::int64_t sent_within_secondary() const { return secondary == nullptr ? 0 : secondary->traffic().sent_bytes; }
  // Returns the seconds that this rank has spent waiting for other ranks.
  double waited_seconds() const;
};

}  // namespace zero
