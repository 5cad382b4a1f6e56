// EngineComms: the ranks that an engine works with: those of the run, and those that hold the model once with it.
//
//   EngineComms comms(world, options.group);
//   comms.copy.rank()          // which shard this rank holds
//   comms.run.rank() == 0      // who speaks for all
//
// The gathers of units, and the offsets of shards, concern the copy. What all must agree on (losses, errors, budgets, a
// step) concerns the run. Sums of gradients concern both: GradientSum makes them. Where the model is held once, the copy
// is the run, and nobody need ask.
//
// Where secondary parts of weights are kept (zero/plan/units/secondary.h), `secondary` is the group of ranks of the copy that have
// all of them together.
//
// Units on a device that the host cannot read are exchanged when their bytes have come down, on one rank earlier than on another.
// They are numbered apart from all other collectives then: units are a group of the copy's ranks, where the transport has groups.
//
// Construction is Collective; everything else Local. Throws ConfigError under "zero.group", CommError.
#pragma once

#include <memory>

#include "zero/comm/communicator.h"
#include "zero/plan/units/mesh.h"

namespace zero {

class EngineComms {
 private:
  std::unique_ptr<Communicator> own_copy_, own_across_;  // null where the model is held once
  std::unique_ptr<Communicator> own_units_;              // null where units are numbered with all else
  std::unique_ptr<Communicator> own_secondary_;          // null where no secondary parts are kept

 public:
  // `group`: ranks that hold the model once; 0: all. `secondary_group`: neighbours of these that keep parts; 0: none do. It
  // divides them.
  EngineComms(Communicator& run, int group, bool units_apart = false, int secondary_group = 0);

  const Mesh mesh;
  Communicator& run;
  Communicator& copy;
  // The copy's ranks, for gathers of units and sums of their gradients.
  Communicator& units;
  // The ranks that hold the same shard in other copies, this rank's copy being its place there; null: there are none.
  Communicator* const across;
  Communicator* const secondary;  // null: there are no secondary parts

  bool units_apart() const { return own_units_ != nullptr; }
  int copy_number() const { return mesh.copy_of(run.rank()); }

  // Bytes so far, in the run and its groups. `between_copies`: of these, to and from other copies.
  Traffic traffic() const;
  std::int64_t sent_between_copies() const { return across == nullptr ? 0 : across->traffic().sent_bytes; }
  std::int64_t sent_within_secondary() const { return secondary == nullptr ? 0 : secondary->traffic().sent_bytes; }
  // Seconds this rank has spent waiting for others so far.
  double waited_seconds() const;
};

}  // namespace zero
