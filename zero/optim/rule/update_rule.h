// UpdateRule: one optimizer step over flat spans.
//
//   auto rule = make_update_rule(AdamWOptions{.beta2 = 0.95});      // rule_registry.h lists the rules
//   rule->update(span, {.step = 1, .lr = 3e-4, .gradient_scale = clip / divisor, .weight_decay = 0.1});
//
// A rule knows spans and a step number, but no ranks, units or tiers. One pass over memory does everything: unscale and
// clip (one factor), moments, decay, update, and the low-precision copy. lr and weight_decay are arguments of each
// update, because a learning-rate schedule changes lr, and the parameter group decides weight_decay.
//
// Elements are independent (with states in 8 bits: blocks of kCodeBlock), except for sums over parameters (LAMB;
// add_sums()), FactorRule (Adafactor) and MatrixRule (Muon). So any cut, number of threads and instruction set gives
// the same bits. Rules are immutable: threads may share one. Local, all of it.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "zero/base/numbers/exact_sum.h"
#include "zero/base/numbers/state_spec.h"
#include "zero/base/process/parallel.h"
#include "zero/device/device.h"
#include "zero/optim/rule/queued_updates.h"
#include "zero/optim/rule/rule_row.h"
#include "zero/optim/rule/update_span.h"

namespace zero {

// A rule's extra work on matrices that it updates as wholes (Unit::matrices), before update(). Each rank directs its
// shard of them. All directions of a matrix are gathered, and each rank that updates a part of the matrix completes
// them. Budgets, ledgers and plans ask the rule for the cost of completing a matrix.
class MatrixRule {
 public:
  virtual ~MatrixRule() = default;
  // Computes the direction of each element from its gradient and state 0, which is updated. Writes the directions to
  // the span's parameter memory, without reading it. Spans are the same as for update(), which has no state 0 of a
  // matrix.
  virtual void direct(const UpdateSpan& span, const UpdateScalars& scalars) const = 0;
  // Turns all directions of a matrix, row-major, into the gradient for update(). Several ranks may complete the same
  // matrix, so the bits depend only on directions and shape. `workspace`: at least workspace_numel(matrix) floats of
  // any value.
  virtual void complete(float* directions, const MatrixShape& matrix, std::span<float> workspace,
                        ThreadTeam& team) const = 0;
  // Queue direct() for each of these spans, which must not overlap, and complete(). All pointers are to device memory,
  // the workspace at a multiple of 256 bytes. The bits equal the host's. Throw InternalError for a rule with only host
  // code, such as a user's.
  virtual void queue_directions(Device& device, Lane lane, std::span<const SpanUpdate> updates) const;
  virtual void queue_completion(Device& device, Lane lane, float* directions, const MatrixShape& matrix,
                                std::span<float> workspace) const;
  // Returns the floats of complete()'s workspace for a matrix of that shape. A rank holds those of the largest matrix.
  virtual std::int64_t workspace_numel(const MatrixShape& matrix) const = 0;
  // Returns the number of additions and multiplications of complete().
  virtual double completion_flops(const MatrixShape& matrix) const = 0;
  // Returns whether a model without any matrix is refused, because all its parameters would be updated by the other
  // rule.
  virtual bool needs_a_matrix() const { return true; }
};

// A rule's extra work on matrices whose rows and columns have states, such as mean squares, instead of each element
// (Unit::factored). It runs before add_sums() and update(). states() declares both states.
class FactorRule {
 public:
  virtual ~FactorRule() = default;
  // Adds the squares of the span's scaled gradients to the sum of each row and column of their matrix. Reads only
  // gradients. Spans begin at multiples of kSumBlock in their parameter. Threads may call it at once with spans of one
  // matrix: it holds `lock` while it adds to the sums.
  virtual void add_squares(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> rows,
                           std::span<ExactSum> columns, std::mutex& lock) const = 0;
  // Returns the states after the step. `sums`: of whole rows, then of whole columns.
  virtual Factors update_factors(std::span<float> row_var, std::span<float> col_var, std::span<const double> sums,
                                 const UpdateScalars& scalars) const = 0;
  // Queues add_squares(). All pointers are to device memory; sums are limbs.
  virtual void queue_squares(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars,
                             std::span<SumLimbs> rows, std::span<SumLimbs> columns) const = 0;
  // Queues update_factors(), and writes `row_mean`.
  virtual Factors queue_factors(Device& device, Lane lane, std::span<float> row_var, std::span<float> col_var,
                                float* row_mean, std::span<const double> sums, const UpdateScalars& scalars) const = 0;
};

// An optimizer's rule. In a rule that a user writes, update() computes each element only from that element and the
// sums, if any. The result must not depend on the spans' cuts. Several threads call it at once, each with a separate
// span.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::string_view name() const = 0;
  // Returns the states, at most kMostOwnStates: Adam has two, Lion one, SGD none or one. A user's states are fp32 or in
  // 8 bits. Only a FactorRule has states of rows and columns of a matrix, one of each (StatePer).
  virtual std::vector<StateSpec> states() const = 0;
  // Returns how many sums over a whole parameter update() needs: most rules none, LAMB two.
  virtual int num_sums() const { return 0; }
  // Adds this span's share to each sum, and writes nothing else. `scalars`: those of the coming update, without sums.
  // That update finds the totals of all ranks in `scalars.sums`. Spans begin at multiples of kSumBlock in their unit.
  virtual void add_sums(const UpdateSpan& /*span*/, const UpdateScalars& /*scalars*/,
                        std::span<ExactSum> /*sums*/) const {}
  virtual void update(const UpdateSpan& span, const UpdateScalars& scalars) const = 0;
  // Returns whether update() also updates span.average in the same pass over memory. If not, with_average() does.
  virtual bool keeps_average() const { return false; }
  // Queues update() for each of these spans, which must not overlap, in device memory, in as few kernels as the rule's
  // code allows (UpdateSlices). A user's rule has only host code: other devices refuse it, and the rule and the memory
  // of `scalars` must outlive the work.
  virtual void queue(Device& device, Lane lane, std::span<const SpanUpdate> updates) const;
  // Queues add_sums() in device memory, to num_sums() limbs. Throws InternalError for a rule without sums, or with only
  // host code.
  virtual void queue_sums(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars,
                          std::span<SumLimbs> sums) const;
  // null: every parameter is updated element by element
  virtual const MatrixRule* matrices() const { return nullptr; }
  // null: no state is of rows or columns
  virtual const FactorRule* factors() const { return nullptr; }
};

// Returns the facts of the rule for plans and memory.
OptimizerSpec spec_of(const UpdateRule& rule);

// Returns what the rule needs of a parameter at once.
RuleNeeds needs_of(const UpdateRule& rule);

}  // namespace zero
