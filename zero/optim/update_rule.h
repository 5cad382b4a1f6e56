// UpdateRule: one optimizer step over flat spans.
//
// A rule sees spans and a step number; never ranks, units or tiers. One pass over memory does everything: unscale and
// clip (one factor), moments, decay, update, and the low-precision copy. Three kinds of rules do more. A rule with sums
// over whole parameters (LAMB) first reads everything once, in add_sums(), and writes nothing there. A rule that keeps
// states of rows and columns (Adafactor) is a FactorRule, too: add_squares() and update_factors() come before that. A rule
// that steps along whole matrices (Muon) is a MatrixRule, too: direct() and complete() come before update(). Apart from
// that, elements are independent (with states in 8 bits: blocks of kCodeBlock), so any cut between them, any number of
// threads and any instruction set gives the same bits.
//
//   auto rule = make_update_rule(AdamWOptions{.beta2 = 0.95});      // rule_registry.h lists the rules
//   rule->update(span, {.step = 1, .lr = 3e-4, .gradient_scale = clip / divisor, .weight_decay = 0.1});
//
// lr and weight_decay come with each update, because a schedule changes the one and the parameter group decides the
// other. A rule is immutable: many threads may share one.
// Local, all of it.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "zero/base/exact_sum.h"
#include "zero/base/parallel.h"
#include "zero/base/state_spec.h"
#include "zero/device/device.h"
#include "zero/optim/queued_updates.h"
#include "zero/optim/rule_row.h"
#include "zero/optim/update_span.h"

namespace zero {

// What a rule does with matrices that it updates as wholes (Unit::matrices), before update(): each rank directs its shard
// of them, all directions of a matrix are brought together, and whoever updates a part of it completes them. Budgets, ledgers
// and plans ask the rule what completing a matrix takes.
class MatrixRule {
 public:
  virtual ~MatrixRule() = default;
  // The direction of each element, from its gradient and state 0, which is updated. The directions are written where
  // the span has its parameter, which is not read; spans are as update()'s.
  virtual void direct(const UpdateSpan& span, const UpdateScalars& scalars) const = 0;
  // All directions of a matrix, row by row, become what update() takes as gradient. Several ranks may complete the same matrix:
  // its bits depend on directions and shape alone. `workspace`: workspace_numel(matrix) floats or more, of any values.
  virtual void complete(float* directions, const MatrixShape& matrix, std::span<float> workspace,
                        ThreadTeam& team) const = 0;
  // Queue direct() for each of these spans, no two of which overlap, and complete(), over memory of a device: all that is
  // pointed to lies there, the workspace at a multiple of 256 bytes. Bits are the host's. InternalError of a rule with the host's
  // code alone, as one that a user writes.
  virtual void queue_directions(Device& device, Lane lane, std::span<const SpanUpdate> updates) const;
  virtual void queue_completion(Device& device, Lane lane, float* directions, const MatrixShape& matrix,
                                std::span<float> workspace) const;
  // Floats that complete() works with beside a matrix of that shape. A rank holds those of the largest.
  virtual std::int64_t workspace_numel(const MatrixShape& matrix) const = 0;
  // Additions and multiplications of complete().
  virtual double completion_flops(const MatrixShape& matrix) const = 0;
  // Whether a model without any matrix is refused: all its parameters would be updated as others are.
  virtual bool needs_a_matrix() const { return true; }
};

// What a rule does with matrices of which it keeps a state of each row and one of each column, such as mean squares, in place
// of one of each element (Unit::factored), before add_sums() and update(). Its states() declare both.
class FactorRule {
 public:
  virtual ~FactorRule() = default;
  // Adds the squares of the span's gradients, scaled, to the sum of each row and each column of their matrix. Reads
  // gradients alone. Spans begin at multiples of kSumBlock in their parameter. Several threads may call it with spans of
  // one matrix: it adds to the sums while it holds `lock`.
  virtual void add_squares(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> rows,
                           std::span<ExactSum> columns, std::mutex& lock) const = 0;
  // The states after the step. `sums`: of whole rows, then of whole columns.
  virtual Factors update_factors(std::span<float> row_var, std::span<float> col_var, std::span<const double> sums,
                                 const UpdateScalars& scalars) const = 0;
  // Queue the same over memory of a device: all that is pointed to lies there, sums as limbs.
  virtual void queue_squares(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars,
                             std::span<SumLimbs> rows, std::span<SumLimbs> columns) const = 0;
  // `row_mean` is written.
  virtual Factors queue_factors(Device& device, Lane lane, std::span<float> row_var, std::span<float> col_var,
                                float* row_mean, std::span<const double> sums, const UpdateScalars& scalars) const = 0;
};

// Of a rule that a user writes, update() computes an element from that element alone and from the sums, if it has any,
// and alike however spans are cut. It is called by several threads at once, each with a span of its own.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::string_view name() const = 0;
  // At most kMostOwnStates. Adam has two, Lion one, SGD none or one. Of a rule that a user writes they are fp32 or in 8 bits. A FactorRule
  // has one for each row and one for each column of a matrix among them (StatePer); no others have such.
  virtual std::vector<StateSpec> states() const = 0;
  // How many sums over a whole parameter update() wants: most rules none, LAMB two.
  virtual int num_sums() const { return 0; }
  // Adds this span's share to each sum, and writes nothing else. update() finds the totals of all ranks in
  // `scalars.sums`. `scalars` here are those of the update to come, without sums.
  // Spans begin at multiples of kSumBlock in their unit.
  virtual void add_sums(const UpdateSpan& /*span*/, const UpdateScalars& /*scalars*/,
                        std::span<ExactSum> /*sums*/) const {}
  virtual void update(const UpdateSpan& span, const UpdateScalars& scalars) const = 0;
  // Whether update() brings span.average up to date, too, in the same pass over memory. Of others with_average() does.
  virtual bool keeps_average() const { return false; }
  // Queues the same for each of these spans, no two of which overlap, over memory of a device: in as few kernels as the rule
  // has code for (UpdateSlices). A rule that a user writes has the host's code alone: other devices refuse it, and what
  // `scalars` and the rule point to outlives the work.
  virtual void queue(Device& device, Lane lane, std::span<const SpanUpdate> updates) const;
  // Queues add_sums() over memory of a device, to limbs there, num_sums() of them. InternalError of a rule without sums, or with
  // the host's code alone.
  virtual void queue_sums(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars,
                          std::span<SumLimbs> sums) const;
  // Null: every parameter is updated element by element.
  virtual const MatrixRule* matrices() const { return nullptr; }
  // Null: no state is of rows or columns.
  virtual const FactorRule* factors() const { return nullptr; }
};

// What plans and memory need to know of it.
OptimizerSpec spec_of(const UpdateRule& rule);

// What it needs of a parameter at once.
RuleNeeds needs_of(const UpdateRule& rule);

}  // namespace zero
