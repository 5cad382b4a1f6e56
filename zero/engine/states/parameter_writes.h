// ParameterWrites: checks that ranks with the same weights write the same values into them.
//
//   writes.begin(p, bytes_hash(bytes));             // an operator is about to write parameter p
//   writes.end(p, bytes_hash(bytes));               // it has written; no-op if no byte has changed
//   writes.require_same(comm, specs);            // ConfigError with the name of p, if another rank wrote other values
//
// Each change extends the parameter's hash of all changes so far, so number and order of changes count. step() compares
// one hash of all parameters in the exchange that it makes anyway. Local, unless said otherwise. docs/decisions/0077.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/units/param_spec.h"

namespace zero {

// Returns the XXH3 hash.
std::uint64_t bytes_hash(std::span<const std::byte> bytes);

class ParameterWrites {
 public:
  // `ranks_alike`: number of neighbours that hold the same weights; it divides the ranks. `elsewhere`: weights come
  // from other ranks, so every write is lost.
  ParameterWrites(std::size_t num_params, int ranks_alike, bool elsewhere);

  // Returns whether writes matter; if not, no hash is needed.
  bool watches() const { return ranks_alike_ > 1 || elsewhere_; }
  void begin(int param, std::uint64_t hash);
  void end(int param, std::uint64_t hash);
  // Forgets all changes: all ranks have the same values again.
  void forget();
  // Returns one hash for the changes of all parameters; 0: no change.
  std::uint64_t hash() const;

  // Returns whether ranks that hold the same weights have the same hash. `hashes`: by rank.
  bool same(const std::vector<std::uint64_t>& hashes) const;
  // Collective. Throws ConfigError on every rank, or on none.
  void require_same(Communicator& run, const std::vector<ParamSpec>& specs) const;
  // Collective. Throws that ConfigError; for use if same() is false.
  [[noreturn]] void refuse(Communicator& run, const std::vector<ParamSpec>& specs) const;
  // Returns the first parameter with a change; -1: none.
  int first_changed() const;

 private:
  // Returns the lowest rank that holds the same weights.
  std::size_t first_alike(std::size_t rank) const;

  int ranks_alike_;
  bool elsewhere_;
  std::vector<std::int64_t> changes_;  // by parameter: hash of its changes; 0: none
  std::vector<std::uint64_t> before_;  // by parameter: hash of its bytes before the running write
};

}  // namespace zero
