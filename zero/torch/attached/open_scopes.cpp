#include "zero/torch/attached/open_scopes.h"

#include <algorithm>

#include "zero/base/error/check.h"
#include "zero/comm/collectives.h"
#include "zero/plan/units/partition.h"

namespace zero {

void OpenScopes::gather(const std::vector<int>& units) {
  std::vector<GatheredUnit> held;
  for (const int unit : units) {
    held.push_back(engine_.use(unit, Use::kUntraced));
    if (engine_.writes().watches() && !holds(unit)) begin_writes(held.back());
    for (const Slice& slice : slices_of(unit)) parameters_.readers(slice.param).add_scope();
  }
  gathered_.push_back(std::move(held));
}

void OpenScopes::release(const std::vector<int>& units, int source_rank) {
  Communicator& comm = engine_.resources().comm;
  const int shard = engine_.resources().mesh.shard;
  for (const int unit : units) {
    const GatheredUnit* const found = find(unit);
    ZERO_CHECK(found != nullptr, "unit {} is in no gathered() scope", unit);
    const GatheredUnit& whole = *found;
    if (source_rank >= 0) {
      const Unit& description = parameters_.units()[static_cast<std::size_t>(unit)];
      const auto bytes = static_cast<std::size_t>(padded_numel(description, shard)) * size_of(description.dtype);
      broadcast(comm, {whole.data(), bytes}, source_rank, {.unit = unit, .control = true});
    }
    whole.mark_written();
    if (engine_.writes().watches() && source_rank < 0) end_writes(whole);
  }
  for (const int unit : units) end_scope(unit);
  gathered_.pop_back();
}

const std::vector<Slice>& OpenScopes::slices_of(int unit) const {
  return parameters_.units()[static_cast<std::size_t>(unit)].slices;
}

void OpenScopes::end_scope(int unit) const {
  for (const Slice& slice : slices_of(unit)) parameters_.readers(slice.param).remove_scope();
}

void OpenScopes::end_all_left() {
  for (const std::function<void()>& end : std::exchange(left_, {})) end();
}

void OpenScopes::drop() {
  left_.clear();
  for (const std::vector<GatheredUnit>& scope : gathered_)
    for (const GatheredUnit& held : scope) end_scope(held.unit());
  gathered_.clear();
}

void OpenScopes::begin_writes(const GatheredUnit& whole) const {
  for (const Slice& slice : slices_of(whole.unit()))
    engine_.writes().begin(slice.param, parameters_.hash_of(slice.param, whole.data()));
}

void OpenScopes::end_writes(const GatheredUnit& whole) const {
  for (const Slice& slice : slices_of(whole.unit()))
    engine_.writes().end(slice.param, parameters_.hash_of(slice.param, whole.data()));
}

bool OpenScopes::holds(int unit) const {
  return find(unit) != nullptr;
}

bool OpenScopes::trains_apart() const {
  return engine_.resources().options.local && !engine_.states().averaged();
}

const GatheredUnit* OpenScopes::find(int unit) const {
  for (const std::vector<GatheredUnit>& scope : gathered_) {
    const auto found = std::ranges::find(scope, unit, &GatheredUnit::unit);
    if (found != scope.end()) return &*found;
  }
  return nullptr;
}

}  // namespace zero
