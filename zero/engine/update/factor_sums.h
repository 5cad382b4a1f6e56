// FactorSums: the sums of squares of every row and every column of a unit's matrices, over all ranks (FactorRule). A rank
// has a part of a matrix, which has parts of some rows and of all columns.
//
//   FactorSums sums(unit, comm, ledger);                  // exact sums, all 0
//   rule.add_squares(span, scalars, sums.rows(param), sums.columns(param), lock);   // of this rank's shard
//   sums.exchange();                                      // Collective
//   sums.rounded(param)                                   // of rows, then of columns; the same on every rank
//
// Each rank adds a block of all ranks' sums, exactly, and rounds them once: neither the number of ranks nor where their
// shards begin changes a bit. A rank sends factor_sent_bytes(). The memory is staging, in the ledger from construction to
// destruction; factor_staging_bytes() says how much it is at most. Local, where nothing else is said.
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
  // All outlive it. `tier`: in whose budget its memory, which is the host's, counts.
  FactorSums(const Unit& unit, Communicator& comm, Ledger& ledger, Tier tier = Tier::kDevice);

  // Of the unit: matrix by matrix those of its rows, then those of its columns.
  std::span<ExactSum> all() const { return mine_.as<ExactSum>().first(static_cast<std::size_t>(factor_numel(unit_))); }
  // Where those of a matrix are among them.
  struct Place {
    std::size_t begin = 0, num_rows = 0, num_columns = 0;
    std::size_t count() const { return num_rows + num_columns; }
  };
  Place place_of(std::size_t param) const;
  // Of a matrix of the unit.
  std::span<ExactSum> rows(std::size_t param) const;
  std::span<ExactSum> columns(std::size_t param) const;
  // Collective.
  void exchange();
  std::span<const double> rounded(std::size_t param) const;
  // In the order of all().
  std::span<const double> rounded() const { return rounded_.as<double>().first(all().size()); }

 private:
  const Unit& unit_;
  Communicator& comm_;
  Buffer mine_, from_all_, rounded_;  // `from_all_`: all ranks' sums of this rank's block; empty in a world of one
};

// Of the unit with most sums; 0 where none is factored.
std::int64_t factor_staging_bytes(const std::vector<Unit>& units, int world);

}  // namespace zero
