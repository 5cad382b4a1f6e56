// MatrixPass: updates the whole matrices of a unit (MatrixRule, Muon), on the host or on a device.
//
//   MatrixPass matrices(rule, state, values, tiles, comm, direction_comm, ledger, options);
//   matrices.update(unit, gradient);
//
// It computes directions of this rank's shard, completes whole directions (MatrixDirections), then steps along them.
// These are two passes over the unit, each with its own states, so no state is read twice. Matrices with all states on
// a device are updated there, in kUpdate. The host updates matrices with a state on another tier, and all matrices of a
// rule that has only host code. Collective: ranks gather directions. Throws IoError.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/engine/update/update_tiles.h"

namespace zero {

class MatrixPass {
 public:
  // `direction_comm`: gathers directions of matrices whose units are updated on a device. All must outlive it, except
  // `options`.
  MatrixPass(const UpdateRule& rule, ShardedState& state, StepValues& values, UpdateTiles& tiles, Communicator& comm,
             Communicator& direction_comm, Ledger& ledger, const AttachOptions& options);

  void update(int unit, const UnitGradient& gradient);

 private:
  void update_on_host(int unit, const UnitGradient& gradient);
  void queue(int unit, const UnitGradient& gradient);

  const UpdateRule& rule_;
  ShardedState& state_;
  StepValues& values_;
  UpdateTiles& tiles_;
  Communicator& comm_;
  Communicator& direction_comm_;
  Ledger& ledger_;
  Timeline* timeline_;
  Buffer memory_;  // on a device: for the MatrixDirections of the unit being updated; empty: not needed
};

}  // namespace zero
