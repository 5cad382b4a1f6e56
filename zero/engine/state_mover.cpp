#include "zero/engine/state_mover.h"

#include <fmt/format.h>

#include "zero/base/error/log.h"
#include "zero/base/numbers/tier_bytes.h"
#include "zero/base/text/bytes.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

}  // namespace

StateMover::StateMover(EngineParts& parts) : parts_(parts) {
  // Moving states out of a device's own memory frees nothing if the machine's memory is short.
  if (parts.options.offload.monitor.on && !parts.placer.placement().device_is_apart)
    rebalancer_.emplace(parts.placer, parts.budget, parts.state.units(), parts.comms.mesh.shard, parts.options,
                        parts.local_world, parts.read_memory);
}

void StateMover::settle(std::int64_t updates) {
  if (!rebalancer_ || !parts_.placer.movable()) return;
  const std::int64_t untouched = untouched_bytes(updates) + in_memory(MemoryTag::kGradient);
  const std::int64_t wanted = all_reduce_max(parts_.comms.run, rebalancer_->wanted(untouched));
  if (wanted > 0) rebalance(wanted, updates);
}

void StateMover::look() {
  if (rebalancer_) rebalancer_->look();
}

std::int64_t StateMover::wanted(std::int64_t updates) {
  return rebalancer_ ? rebalancer_->wanted(untouched_bytes(updates)) : 0;
}

// Pages of moments are committed at the first update, and pages of a second gradient when it is first written.
std::int64_t StateMover::untouched_bytes(std::int64_t updates) const {
  if (updates > 0) return 0;
  const bool keeps_gradients = parts_.state.placement().delayed_update;
  return in_memory(MemoryTag::kMoment) + (keeps_gradients ? in_memory(MemoryTag::kGradient) / 2 : 0);
}

std::int64_t StateMover::in_memory(MemoryTag tag) const {
  std::int64_t bytes = 0;
  for (const Tier tier : kAllTiers) bytes += is_memory(tier) ? parts_.ledger.held(tier, tag) : 0;
  return bytes;
}

std::int64_t StateMover::move(const std::vector<UnitTiers>& tiers, GatherBudget budget) {
  parts_.updater.finish();
  parts_.comms.copy.drain();
  const std::int64_t moved = parts_.state.move_to(tiers);
  parts_.gatherer.blocks().placement_changed();
  parts_.executor.placement_changed(budget);
  parts_.gatherer.blocks().give_back_idle();
  moved_bytes_ += moved;
  ++num_replans_;
  return moved;
}

std::string StateMover::where_states_lie() const {
  return format_by_tier([this](Tier tier) { return parts_.ledger.held(tier).state(); });
}

void StateMover::rebalance(std::int64_t wanted_bytes, std::int64_t updates) {
  if (!rebalancer_) return;
  const std::optional<Rebalancer::Change> change = rebalancer_->change(wanted_bytes);
  if (!change) return;
  const std::int64_t moved = move(change->tiers, change->budget);
  if (parts_.comms.run.rank() == 0) {
    const std::string given_back = format_bytes(change->given_back);
    const std::string why =
        wanted_bytes > 0 ? fmt::format("memory is short ({} were free, {} should stay free); a rank returns {}",
                                       format_bytes(rebalancer_->worst().free_bytes),
                                       format_bytes(rebalancer_->reserve()), given_back)
        : change->given_back > 0
            ? fmt::format("memory is free again; a rank has its first placement back, except for {}", given_back)
            : "memory is free again, and a rank has its first placement back";
    ZERO_LOG(warn, "step {}: {}: {} moved, {}", updates, why, format_bytes(moved), where_states_lie());
  }
  rebalancer_->changed();
}

// Before a profile is known, states are placed as if the model computed nothing that could overlap transfers.
void StateMover::learn(const StepProfile& profile, std::int64_t updates) {
  Placer& placer = parts_.placer;
  if (!placer.movable() || (rebalancer_ && rebalancer_->gives_back())) return;
  const Placement before = placer.placement();
  const std::optional<std::vector<UnitTiers>> tiers =
      placer.learn(profile, parts_.state.streams().tiers().depth, rebalancer_ ? rebalancer_->spare() : kNoLimit);
  if (!tiers) return;
  placer.adopt(*tiers);
  const std::int64_t moved = move(*tiers, parts_.budget);
  if (rebalancer_) {
    rebalancer_->restart();
    rebalancer_->changed();
  }
  if (parts_.comms.run.rank() == 0) {
    ZERO_LOG(info,
             "step {}: after measuring the model's computation, a step should take {:.0f} ms instead of {:.0f}: {} "
             "moved, {}",
             updates, 1e3 * placer.predicted(placer.placement(), profile).total(),
             1e3 * placer.predicted(before, profile).total(), format_bytes(moved), where_states_lie());
  }
}

void StateMover::add_to(EngineReport& report) const {
  report.movable = parts_.placer.movable();
  report.replans = num_replans_;
  report.moved_bytes = moved_bytes_;
}

}  // namespace zero
