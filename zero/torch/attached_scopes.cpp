#include "zero/torch/attached_scopes.h"

#include <exception>

#include "zero/torch/attached_module.h"

namespace zero {

GatheredScope::GatheredScope(AttachedModule& attached, std::vector<int> units, int source_rank)
    : attached_(attached), units_(std::move(units)), source_rank_(source_rank) {
  attached_.gather_for_everybody(units_);
}

GatheredScope::~GatheredScope() noexcept(false) {
  if (std::uncaught_exceptions() == 0) attached_.release_from_everybody(units_, source_rank_);
}

AveragedScope::AveragedScope(AttachedModule& attached) : attached_(attached) {
  attached_.exchange_averages();
}

AveragedScope::~AveragedScope() noexcept(false) {
  if (std::uncaught_exceptions() == 0) attached_.exchange_averages();
}

FrozenScope::FrozenScope(AttachedModule& attached) : attached_(attached) {
  attached_.freeze();
}

FrozenScope::~FrozenScope() {
  attached_.thaw();
}

}  // namespace zero
