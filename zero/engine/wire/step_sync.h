// StepSync: the facts on which all ranks agree before an update, in one exchange a step.
//
//   StepSync verdict = exchange(comm, mine);
//
// Each rank sends the results of its reductions (sum of squares, non-finite counts, parameters with a gradient), its
// loss and the hash of its trace. Every rank computes the same verdict from the same numbers in the same order. Sums of
// squares are exact until all are added, so no bit of the norm depends on the owners of the shards. The exchange is
// also the step's barrier: when it returns, every rank has read the shards and gradients of others that it needs.
// Collective.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "zero/base/numbers/exact_sum.h"
#include "zero/comm/communicator.h"
#include "zero/plan/units/leaves.h"

namespace zero {

struct RankStep {
  std::uint64_t trace_hash = 0;
  std::int64_t num_non_finite = 0;
  int first_bad_param = -1;       // in this rank's shards; -1: none
  std::int64_t wanted_bytes = 0;  // bytes to give back (> 0) or to take (< 0); see Rebalancer
  ExactSum sum_squares;           // of this rank's shards of all units
  std::vector<bool> present;      // by parameter
  std::optional<double> loss;
  std::vector<double> leaf_losses;  // by micro-batch; empty: not given
  double max_loss = std::numeric_limits<double>::infinity();
  double max_grad_norm = std::numeric_limits<double>::infinity();
  double lr = 0;
  std::uint64_t rates_hash = 0;  // of all rates and decays of the step
  int passes = 0;                // backward passes of the step
  std::uint64_t write_hash = 0;  // see ParameterWrites
};

// A rank with another number of backward passes than rank 0.
struct OtherPasses {
  int rank = 0;
  int passes = 0, first = 0;
};

// A rank with another learning rate than rank 0.
struct OtherRate {
  int rank = 0;
  double lr = 0, first = 0;
};

struct StepSync {
  // By copy of the model: over the copy's ranks.
  std::vector<double> sum_squares;
  std::vector<ExactSum> exact_squares;  // the same sums, before they are rounded
  std::int64_t num_non_finite = 0;
  int first_bad_param = -1;                 // the lowest of any rank
  std::vector<bool> present;                // on any rank
  std::int64_t wanted_bytes = 0;            // the most bytes that any rank needs back
  int mismatched_rank = -1;                 // the first rank with another trace than rank 0; -1: none
  std::optional<OtherRate> other_rate;      // the first
  int other_rates_rank = -1;                // the first rank with another rates_hash than rank 0; -1: none
  std::optional<OtherPasses> other_passes;  // the first
  // Mean over ranks, summed in their order, or over leaves, summed in their tree. Empty if a rank has no loss.
  std::optional<double> loss;
  double max_loss = std::numeric_limits<double>::infinity();  // rank 0's, as is the other limit
  double max_grad_norm = std::numeric_limits<double>::infinity();
  std::vector<std::uint64_t> write_hashes;  // by rank
};

// Local. Makes one verdict of those of several engines that train parts of one model: sums and counts are added. The
// results are those of one engine with all parts, because sums of squares are exact. Fields that concern one engine
// (parameters, traces, rates) stay those of `verdict`.
void add_part(StepSync& verdict, const StepSync& other);

// `shard`: ranks that hold one copy of the model; 0: all. If gradients are summed over all copies, all copies have the
// same sums of squares. `leaves`: null if a step has none.
StepSync exchange(Communicator& comm, const RankStep& sent, int shard = 0, const Leaves* leaves = nullptr);

}  // namespace zero
