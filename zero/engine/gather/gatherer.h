// Gatherer: brings whole parameters to where operators can read them, and takes them away again.
//
// It obeys: begin(), ensure() and release() are called by the executor, which knows the schedule. A unit in use
// (UnitUses) is never released. The memory is GatherBlocks'; shards that come from a lower tier ahead of their gather
// are ShardPrefetches'. Where parameters are held whole, ensure() only waits for the all-gather that followed the last
// update.
//
//   gatherer.begin(u);          // Collective: tells peers, allocates; nothing is copied yet
//   gatherer.ensure(u);         // Collective: the unit is bound, its parameters can be read
//   gatherer.release(u);        // Local
//
// Where secondary parts are kept, a unit whose part is current is gathered from those of its group, and a first gather keeps
// one if the action says so.
//
// The observer hears where a unit's bytes are: bind(u, data), and bind(u, null) when they are gone.
//
// On a device that the host cannot read, and no more than that:
// - the shard comes down behind its update (kUpdate), or behind its own way up, where it comes from another tier;
// - the unit goes up behind the last use of its block (GatherBlocks), and behind its update: the host has seen the shard down;
// - the lane kCompute, in which operators use it, comes after its way up (and the copy into the order of parameters, or of a
//   part that is kept).
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/gather/gather_blocks.h"
#include "zero/engine/gather/secondary_parts.h"
#include "zero/engine/gather/shard_prefetches.h"
#include "zero/engine/gather/unit_uses.h"
#include "zero/engine/options/work_timer.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/plan/schedule/residency.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  // `data`: the unit's parameters in its dtype, where Unit::slices say; valid until the next call for this unit; null: released.
  virtual void bind(int unit, std::byte* data) = 0;
};

// Questions of a gather about a shard whose update may still run. By default no update runs.
struct ShardUpdates {
  std::function<bool(int unit)> current = [](int) { return true; };
  std::function<void(int unit)> complete = [](int) {};
  // Completes the unit's update. Parameters that are not on their tier yet are copied to `into`; returns the number of
  // elements, from the first, that are.
  std::function<std::int64_t(int unit, std::byte* into)> complete_into;
};

class Gatherer {
 public:
  // `parts` outlive it.
  Gatherer(ShardedState& state, Communicator& comm, Ledger& ledger, UnitObserver& observer, SecondaryParts& parts,
           ShardUpdates updates = {}, Timeline* timeline = nullptr);
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  // Collective. No-ops for a unit that is resident (begun) already. Parts are gathered where one is current, and only there;
  // kept where `way` is not kAll.
  void begin(int unit, GatherWay way = GatherWay::kAll);
  void ensure(int unit);
  // Local. No-op for one that is not resident; a pinned one is a bug.
  void release(int unit);
  // Collective. Waits for everything begun.
  void finish();

  // Collective. After an update: whole parameters from everybody's shards (where they are held whole). Unbound until
  // they are there.
  void refresh(int unit);

  // Local, all of these.
  bool ready(int unit) const { return ready_[static_cast<std::size_t>(unit)]; }
  std::byte* data(int unit) const { return data_[static_cast<std::size_t>(unit)]; }
  const Residency& resident() const { return resident_; }
  // Resident units that nobody uses, the least recently ensured first.
  std::vector<int> releasable() const { return uses_.idle_of(resident_.units()); }
  UnitUses& uses() { return uses_; }
  const UnitUses& uses() const { return uses_; }
  ShardPrefetches& prefetches() { return prefetches_; }
  GatherBlocks& blocks() { return blocks_; }
  const WorkTimer& timer() const { return timer_; }
  WorkTimer& timer() { return timer_; }

 private:
  void begin_parts(int unit);
  void begin_shards(int unit);
  Lane arrive(int unit);
  void put_together(int unit);
  CommTag tag_of(int unit) const;
  std::span<const std::byte> bring_own(int unit, std::byte* block, std::optional<WorkTimer::Span>& span);

  ShardedState& state_;
  Communicator& comm_;
  UnitObserver& observer_;
  ShardUpdates updates_;
  Timeline* timeline_;
  // By unit: its gather, from begin() to ensure().
  WorkTimer timer_;
  std::vector<TimedSpan> spans_;
  GatherBlocks blocks_;
  SecondaryParts& parts_;
  UnitUses uses_;
  Residency resident_;  // units whose gathered range is ours to release; empty where parameters are whole
  ShardPrefetches prefetches_;
  std::vector<Work> pending_;   // by unit
  std::vector<bool> keeps_;     // by unit: what its gather brings is to be kept
  std::deque<int> refreshing_;  // units whose refresh may be pending, the oldest first
  std::vector<bool> ready_;     // bound and complete
  std::vector<std::byte*> data_;
};

}  // namespace zero
