// MatrixDirections: the directions of those matrices of a unit that this rank updates, whole, while their update lasts
// (MatrixRule).
//
//   MatrixDirections directions(state, unit, rule.matrices(), comm, ledger);
//   directions.shard()                     // element 0 of this rank's update range: its directions are written there
//   directions.complete(present, team);    // Collective: those of all ranks come where shards cut matrices
//                                          // (gathers_directions() in zero/plan/units/estimate.h), and each matrix that this
//                                          // rank updates is completed
//
// Where the optimizer's states are whole, this rank directs everything; where each matrix has one owner, all of its own.
// Then nothing comes, and only what this rank directs is held. Every rank completes all matrices of which it updates a part:
// a matrix that several shards cut is completed as often, with the same bits. The memory is the host's, and staging in the
// ledger from construction to destruction. matrix_bytes() says how much it is at most.
//
// Or it is the device's, of which the owner keeps a part, since what is queued outlives this one; and `comm` takes such memory:
//
//   MatrixDirections directions(state, unit, rule.matrices(), comm, matrix_memory.bytes());
//   directions.queue_completion(present);  // Collective; in kUpdate, where directions are written before, and used later
//
// Where directions come, this rank's go in kDown, behind kUpdate. Those of all come in kUp, behind kUpdate, too, which may
// still read what lies there; the host waits for the ranks, and kUpdate goes on behind kUp. Where none come the host waits for nothing.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "zero/base/process/parallel.h"
#include "zero/comm/communicator.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/memory/account/buffer.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

class MatrixDirections {
 public:
  // Local. In memory of the host.
  MatrixDirections(const ShardedState& state, int unit, const MatrixRule& rule, Communicator& comm, Ledger& ledger);
  // Local. In memory of the device, of matrix_bytes() or more.
  MatrixDirections(const ShardedState& state, int unit, const MatrixRule& rule, Communicator& comm,
                   std::span<std::byte> there);

  float* shard() const { return at(state_.update_range(unit_).offset); }
  // `present`: by parameter; matrices without a gradient are passed over.
  void complete(const std::vector<bool>& present, ThreadTeam& team);
  void queue_completion(const std::vector<bool>& present);

 private:
  std::span<float> workspace() const { return floats_.first(workspace_numel()); }
  std::size_t workspace_numel() const { return static_cast<std::size_t>(state_.unit(unit_).workspace_numel); }
  float* at(std::int64_t offset) const { return floats_.data() + workspace_numel() + offset - held_.offset; }
  void gather();
  // Calls use(directions, shape) for each matrix that this rank completes.
  template <typename Use>
  void for_each_matrix(const std::vector<bool>& present, Use use) const;

  const ShardedState& state_;
  int unit_;
  const MatrixRule& rule_;
  Communicator& comm_;
  bool gathers_;
  Shard
      held_;  // of the flat range: all of it with the padding where directions are gathered, else what this rank updates
  Buffer own_;               // empty on the device
  std::span<float> floats_;  // the workspace, and then the directions held
};

// Bytes that the directions of a unit take with its workspace (Unit::workspace_numel), of the unit with most; 0 where no unit
// is of matrices.
std::int64_t matrix_bytes(const std::vector<Unit>& units, int world, const Placement& placement);

// What it costs a step to complete matrices, on the rank where it costs most; `cost`: of one matrix, in any unit.
double matrix_cost(const std::vector<Unit>& units, int world, const Placement& placement,
                   const std::function<double(const MatrixShape&)>& cost);
// Operations, as the rule says them.
double matrix_flops(const std::vector<Unit>& units, int world, const Placement& placement, const MatrixRule& rule);

}  // namespace zero
