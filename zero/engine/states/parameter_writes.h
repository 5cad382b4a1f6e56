// ParameterWrites: whether all ranks that hold the same weights write the same values into them.
//
//   writes.begin(p, bytes_hash(bytes));             // an operator is about to write parameter p
//   writes.end(p, bytes_hash(bytes));               // it has written; no-op if no byte has changed
//   writes.require_same(comm, specs);            // ConfigError with the name of p, if another rank wrote other values
//
// Each change extends the parameter's hash of all changes so far: number and order of changes count. step() compares one hash of all parameters in the exchange that it has anyway.
// Local, unless said otherwise. docs/decisions/0077.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/units/param_spec.h"

namespace zero {

// XXH3.
std::uint64_t bytes_hash(std::span<const std::byte> bytes);

class ParameterWrites {
 public:
  // `ranks_alike`: neighbours that hold the same weights, which divide the ranks. `elsewhere`: weights come from servers.
  ParameterWrites(std::size_t num_params, int ranks_alike, bool elsewhere);

  // False: nothing can differ, and no hash is needed.
  bool watches() const { return ranks_alike_ > 1 || elsewhere_; }
  void begin(int param, std::uint64_t hash);
  void end(int param, std::uint64_t hash);
  // All ranks have the same values again.
  void forget();
  // One hash for the changes of all parameters; 0: there are none.
  std::uint64_t hash() const;

  // `hashes`: of each rank.
  bool same(const std::vector<std::uint64_t>& hashes) const;
  // Collective. Throws ConfigError on every rank alike.
  void require_same(Communicator& run, const std::vector<ParamSpec>& specs) const;
  // Collective. The same where same() is known to be false.
  [[noreturn]] void refuse(Communicator& run, const std::vector<ParamSpec>& specs) const;
  // Throws ConfigError if weights that come from servers were written here.
  void refuse_elsewhere(const std::vector<ParamSpec>& specs) const;

 private:
  // The lowest rank that holds the same weights.
  std::size_t first_alike(std::size_t rank) const;

  int ranks_alike_;
  bool elsewhere_;
  std::vector<std::int64_t> changes_;  // by parameter: the hash of its changes; 0: none
  std::vector<std::uint64_t> before_;  // by parameter: of its bytes before the write that goes on
};

}  // namespace zero
