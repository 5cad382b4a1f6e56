// States that move while the model trains.
#include "zero/base/bytes.h"
#include "zero/base/log.h"
#include "zero/engine/engine.h"

namespace zero {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

}  // namespace

// Moments get their pages from the first update, and a second gradient when there is one.
std::int64_t Engine::untouched_bytes() const {
  if (num_steps_ > 0) return 0;
  const auto held = [this](MemoryTag tag) { return ledger_.held(Tier::kDevice, tag) + ledger_.held(Tier::kHost, tag); };
  return held(MemoryTag::kMoment) + (delayed_ ? held(MemoryTag::kGradient) / 2 : 0);
}

// Before the update: nothing is gathered, every rank has read what it wanted of the others, and what an update accesses
// for the first time is not in memory yet.
std::int64_t Engine::move_states(const std::vector<UnitTiers>& tiers, GatherBudget budget) {
  updater_.finish();
  comm_.drain();
  const std::int64_t moved = state_.move_to(tiers);
  gatherer_.placement_changed();
  executor_.set_budget(budget);
  gatherer_.give_back_idle_blocks();
  moved_bytes_ += moved;
  return moved;
}

std::string Engine::where_states_lie() const {
  return fmt::format("{} on the device, {} on the host, {} on disk", format_bytes(ledger_.held(Tier::kDevice).state()),
                     format_bytes(ledger_.held(Tier::kHost).state()), format_bytes(ledger_.held(Tier::kDisk).state()));
}

void Engine::rebalance(std::int64_t wanted_bytes) {
  const std::optional<Rebalancer::Change> change = rebalancer_->change(wanted_bytes);
  if (!change) return;
  const std::int64_t moved = move_states(change->tiers, change->budget);
  if (comm_.rank() == 0) {
    const std::string given_back = format_bytes(change->given_back);
    const std::string why =
        wanted_bytes > 0 ? fmt::format("memory is short ({} were free, {} should stay); a rank gives back {}",
                                       format_bytes(rebalancer_->worst().free_bytes),
                                       format_bytes(rebalancer_->reserve()), given_back)
        : change->given_back > 0
            ? fmt::format("memory is free again; of what a rank had, all but {} is as at first", given_back)
            : "memory is free again, and all is as at first";
    ZERO_LOG(warn, "step {}: {}: {} moved, {}", num_steps_, why, format_bytes(moved), where_states_lie());
  }
  rebalancer_->changed();
  ++num_replans_;
}

// Placed before anything ran, states lie as if the model computed nothing that transfers could hide behind.
void Engine::learn_placement() {
  if (!placer_.movable() || (rebalancer_ && rebalancer_->gives_back())) return;
  const Placement before = placer_.placement();
  const StepProfile profile = this->profile();
  const std::optional<std::vector<UnitTiers>> tiers =
      placer_.learn(profile, state_.depth(), rebalancer_ ? rebalancer_->spare() : kNoLimit);
  if (!tiers) return;
  placer_.adopt(*tiers);
  const std::int64_t moved = move_states(*tiers, budget_);
  if (rebalancer_) {
    rebalancer_->restart();
    rebalancer_->changed();
  }
  if (comm_.rank() == 0) {
    ZERO_LOG(info,
             "step {}: it is known now what the model computes, and a step should take {:.0f} ms instead of {:.0f}: {} "
             "moved, {}",
             num_steps_, 1e3 * placer_.predicted(placer_.placement(), profile).total(),
             1e3 * placer_.predicted(before, profile).total(), format_bytes(moved), where_states_lie());
  }
  ++num_replans_;
}

StepProfile Engine::profile() const {
  StepProfile profile = clock_.profile();
  if (!schedule().entries.empty()) count_gathers(schedule(), state_.units().size(), profile);
  return profile;
}

}  // namespace zero
