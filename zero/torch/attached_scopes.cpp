#include "zero/torch/attached_scopes.h"

#include <exception>
#include <string>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/torch/attached_module.h"

namespace zero {

GatheredScope::GatheredScope(AttachedModule& attached, std::vector<int> units, int source_rank)
    : attached_(attached), units_(std::move(units)), source_rank_(source_rank) {
  attached_.require_loaded();
  attached_.drop_zeroed();
  const int world = attached_.engine().resources().comm.world();
  if (source_rank >= world)
    throw ConfigError("gathered(source_rank)", std::to_string(source_rank),
                      "there is no such rank among " + format_count(world, "rank"),
                      "use a rank of the run, or leave it out if all ranks write the same");
  attached_.scopes().gather(units_);
}

GatheredScope::~GatheredScope() noexcept(false) {
  if (std::uncaught_exceptions() == 0) attached_.scopes().release(units_, source_rank_);
}

AveragedScope::AveragedScope(AttachedModule& attached) : attached_(attached) {
  attached_.require_loaded();
  attached_.drop_zeroed();
  attached_.scopes().exchange_averages();
}

AveragedScope::~AveragedScope() noexcept(false) {
  if (std::uncaught_exceptions() != 0) return;
  attached_.require_loaded();
  attached_.scopes().exchange_averages();
}

FrozenScope::FrozenScope(AttachedModule& attached) : attached_(attached) {
  attached_.scopes().freeze();
}

FrozenScope::~FrozenScope() {
  attached_.scopes().thaw();
}

}  // namespace zero
