// FactorSums: the sums of squares of every row and column of a unit's matrices, over all ranks (FactorRule).
//
//   FactorSums sums(unit, comm, ledger);                  // exact sums, all 0
//   rule.add_squares(span, scalars, sums.rows(param), sums.columns(param), lock);   // of this rank's shard
//   sums.exchange();                                      // Collective
//   sums.rounded(param)                                   // of rows, then of columns; the same on every rank
//
// A rank's shard of a matrix has only parts of rows and columns. exchange() divides the list of sums into one block for
// each rank. A rank adds the parts of its block from all ranks exactly, rounds the totals once, and sends them to all.
// So neither the number of ranks nor the bounds of their shards change a bit. A rank sends factor_sent_bytes(). The
// memory is staging in the ledger while the object lives, at most factor_staging_bytes(). Local, unless said otherwise.
#pragma once

#include <span>
#include <vector>

#include "zero/base/numbers/exact_sum.h"
#include "zero/comm/communicator.h"
#include "zero/memory/account/buffer.h"
#include "zero/plan/units/factored.h"

namespace zero {

class FactorSums {
 public:
  // All must outlive it. `tier`: the budget that its host memory is charged to.
  FactorSums(const Unit& unit, Communicator& comm, Ledger& ledger, Tier tier = Tier::kDevice);

  // Returns the unit's sums, matrix by matrix: first of its rows, then of its columns.
  std::span<ExactSum> all() const { return mine_.as<ExactSum>().first(static_cast<std::size_t>(factor_numel(unit_))); }
  // A matrix's place among these sums.
  struct Place {
    std::size_t begin = 0, num_rows = 0, num_columns = 0;
    std::size_t count() const { return num_rows + num_columns; }
  };
  Place place_of(std::size_t param) const;
  // Return the sums of a matrix of the unit.
  std::span<ExactSum> rows(std::size_t param) const;
  std::span<ExactSum> columns(std::size_t param) const;
  // Collective.
  void exchange();
  std::span<const double> rounded(std::size_t param) const;
  // Returns the rounded sums in the order of all().
  std::span<const double> rounded() const { return rounded_.as<double>().first(all().size()); }

 private:
  const Unit& unit_;
  Communicator& comm_;
  Buffer mine_, from_all_, rounded_;  // `from_all_`: all ranks' sums of this rank's block; empty with one rank
};

// Returns the bytes of the unit with the most sums; 0 if no unit is factored.
std::int64_t factor_staging_bytes(const std::vector<Unit>& units, int world);

}  // namespace zero
