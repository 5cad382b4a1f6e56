// LeafSums: the partial sums of a step's leaves in a binary counter, beside a rank's gradient.
//
//   LeafSums sums(state, ledger);
//   const CounterStep step = sums.next(unit, pass);
//   std::byte* to = sums.at(unit, step.position);          // null: position 0, the gradient itself
//
// Each unit has num_partial_sums() fp32 ranges: of its shard, or of the whole unit if leaves are summed on the rank
// before they are reduced. They are on the device, under the gradient's tag. Local.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/memory/account/buffer.h"
#include "zero/plan/units/leaves.h"

namespace zero {

class LeafSums {
 public:
  // Without leaves it holds nothing. `rank`: of the ranks that share the leaves.
  LeafSums(const ShardedState& state, std::optional<Leaves> leaves, int rank, Ledger& ledger);

  bool on() const { return leaves_.has_value(); }
  // Returns whether several sums meet on this rank.
  bool counts() const { return on() && leaves_->passes() > 1; }
  std::span<const std::uint8_t> merges() const;
  // Returns whether this rank has no leaf in the pass.
  bool is_idle(int pass) const { return on() && leaves_->leaf(rank_, pass) < 0; }
  CounterStep step(int pass) const { return counter_step(pass, leaves_->computed(rank_)); }
  // Returns the elements of a partial sum of the unit.
  std::int64_t numel(int unit) const;
  // Returns the partial sum at a position above 0.
  float* at(int unit, int position) const;
  // Throws ConfigError if a sum of this pass would be no leaf's. `again`: the unit has been summed in this pass.
  void require_leaf(int unit, int pass, bool again) const;

 private:
  const ShardedState& state_;
  std::optional<Leaves> leaves_;
  int rank_;
  std::vector<std::vector<Buffer>> sums_;  // by unit and position - 1
};

}  // namespace zero
