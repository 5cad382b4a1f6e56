// MatrixDirections: the whole directions of a unit's matrices that this rank updates, during their update.
//
//   MatrixDirections directions(state, unit, rule.matrices(), comm, ledger);
//   directions.shard()                     // element 0 of this rank's update range: its directions are written there
//   directions.complete(present, team);    // Collective: gathers cut matrices, then completes all
//
// In memory of the device, which `comm` must accept and the caller keeps, because queued work outlives this object:
//
//   MatrixDirections directions(state, unit, rule.matrices(), comm, matrix_memory.bytes());
//   directions.queue_completion(present);  // Collective; in kUpdate: directions are written before, used after
//
// If optimizer states are whole, or each matrix has one owner, no directions are gathered, and only this rank's are
// held (gathers_directions() in zero/plan/units/estimate.h). Every rank completes all matrices of which it updates a
// part. A matrix cut by several shards is completed several times, with the same bits.
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
  // Local. In memory of the host, which is staging in the ledger while the object lives, at most matrix_bytes().
  MatrixDirections(const ShardedState& state, int unit, const MatrixRule& rule, Communicator& comm, Ledger& ledger);
  // Local. In memory of the device, of matrix_bytes() or more.
  MatrixDirections(const ShardedState& state, int unit, const MatrixRule& rule, Communicator& comm,
                   std::span<std::byte> there);

  float* shard() const { return at(state_.update_range(unit_).offset); }
  // `present`: by parameter; matrices without a gradient are skipped.
  void complete(const std::vector<bool>& present, ThreadTeam& team);
  // If directions are gathered, this rank's are copied down in kDown, after kUpdate. All directions are copied up in
  // kUp, also after kUpdate, which may still read their memory. The host waits for the ranks, and kUpdate then waits
  // for kUp. Otherwise the host waits for nothing.
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
  // The padded flat range if directions are gathered, else this rank's update range.
  Shard held_;
  Buffer own_;               // empty on the device
  std::span<float> floats_;  // the workspace, then the directions
};

// Returns the most bytes that the directions of a unit take with their workspace (Unit::workspace_numel); 0 if no unit
// has matrices.
std::int64_t matrix_bytes(const std::vector<Unit>& units, int world, const Placement& placement);

// Returns the cost of completing matrices in a step, on the rank with the highest cost; `cost`: of one matrix, in any
// unit.
double matrix_cost(const std::vector<Unit>& units, int world, const Placement& placement,
                   const std::function<double(const MatrixShape&)>& cost);
// Returns the operations for this, as the rule counts them.
double matrix_flops(const std::vector<Unit>& units, int world, const Placement& placement, const MatrixRule& rule);

}  // namespace zero
