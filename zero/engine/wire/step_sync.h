// StepSync: what every rank must know before anybody updates, in one exchange a step.
//
// Each rank sends what it learned while reducing its shards (the sum of squares, non-finite counts, which parameters got a
// gradient), its loss and the hash of what its model did; each computes the same verdict from the same numbers in the same
// order. Sums of squares are exact until all are added: no bit of the norm depends on which rank has which shard. The
// exchange is also the step's barrier: when it returns, every rank has read what it wanted of the others' shards and
// gradients.
//
//   StepSync verdict = exchange(comm, mine);
//
// Collective.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "zero/base/numbers/exact_sum.h"
#include "zero/comm/communicator.h"

namespace zero {

struct RankStep {
  std::uint64_t trace_hash = 0;
  std::int64_t num_non_finite = 0;
  int first_bad_param = -1;       // of this rank's shards; -1: none
  std::int64_t wanted_bytes = 0;  // to be given back (> 0) or taken (< 0); see Rebalancer
  ExactSum sum_squares;           // of this rank's shards of all units
  std::vector<bool> present;      // by parameter
  std::optional<double> loss;
  double max_loss = std::numeric_limits<double>::infinity();
  double max_grad_norm = std::numeric_limits<double>::infinity();
  double lr = 0;
  int passes = 0;                // backward passes of the step
  std::uint64_t write_hash = 0;  // see ParameterWrites
};

// A rank that had another number of backward passes than rank 0.
struct OtherPasses {
  int rank = 0;
  int passes = 0, first = 0;
};

// Of a rank, another learning rate than rank 0's.
struct OtherRate {
  int rank = 0;
  double lr = 0, first = 0;
};

struct StepSync {
  // By copy of the model: over the copy's ranks.
  std::vector<double> sum_squares;
  std::int64_t num_non_finite = 0;
  int first_bad_param = -1;                 // the lowest of any rank
  std::vector<bool> present;                // on any rank
  std::int64_t wanted_bytes = 0;            // the most that any rank wants back
  int mismatched_rank = -1;                 // the first rank whose trace differs from rank 0's; -1: all did the same
  std::optional<OtherRate> other_rate;      // the first
  std::optional<OtherPasses> other_passes;  // the first
  std::optional<double> loss;               // mean over ranks, summed in their order; empty where one has none
  double max_loss = std::numeric_limits<double>::infinity();  // rank 0's, as the other limit
  double max_grad_norm = std::numeric_limits<double>::infinity();
  std::vector<std::uint64_t> write_hashes;  // by rank
};

// `shard`: ranks that hold the model once; 0: all. Where gradients are summed over all copies, their sums of squares are
// the same.
StepSync exchange(Communicator& comm, const RankStep& sent, int shard = 0);

}  // namespace zero
