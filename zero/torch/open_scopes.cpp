#include "zero/torch/open_scopes.h"

#include <algorithm>

#include "zero/base/check.h"
#include "zero/comm/collectives.h"
#include "zero/plan/partition.h"

namespace zero {

void OpenScopes::gather(const std::vector<int>& units) {
  std::vector<GatheredUnit> held;
  for (const int unit : units) held.push_back(engine_.use(unit, Use::kUntraced));
  gathered_.push_back(std::move(held));
}

void OpenScopes::release(const std::vector<int>& units, int source_rank) {
  Communicator& comm = engine_.resources().comm;
  const int shard = engine_.resources().mesh.shard;
  for (const int unit : units) {
    const GatheredUnit& whole = held(unit);
    if (source_rank >= 0) {
      const Unit& description = parameters_.units()[static_cast<std::size_t>(unit)];
      const auto bytes = static_cast<std::size_t>(padded_numel(description, shard)) * size_of(description.dtype);
      broadcast(comm, {whole.data(), bytes}, source_rank, {.unit = unit, .control = true});
    }
    whole.mark_written();
  }
  gathered_.pop_back();
}

bool OpenScopes::trains_apart() const {
  return engine_.resources().options.local && !engine_.states().averaged();
}

const GatheredUnit& OpenScopes::held(int unit) const {
  for (const std::vector<GatheredUnit>& scope : gathered_) {
    const auto found = std::ranges::find(scope, unit, &GatheredUnit::unit);
    if (found != scope.end()) return *found;
  }
  ZERO_CHECK(false, "unit {} is in no gathered() scope", unit);
}

}  // namespace zero
