// Gatherer: gathers whole parameters for operators, and releases them.
//
//   gatherer.begin(u);          // Collective: tells peers, allocates; nothing is copied yet
//   gatherer.ensure(u);         // Collective: the unit is bound, its parameters can be read
//   gatherer.release(u);        // Local
//
// The executor, which knows the schedule, calls begin(), ensure() and release(). A unit in use (UnitUses) is never
// released. GatherBlocks has the memory; ShardPrefetches reads shards from a lower tier before their gather. If
// parameters are whole, ensure() only waits for the all-gather after the last update. On a device that the host cannot
// read:
// - A shard is copied down after its update (kUpdate), or, if it comes from another tier, after its copy up (kUp).
// - A unit is copied up after the last use of its block (GatherBlocks) and after its update, because the host waited
//   for the shard.
// - kCompute, the lane of operators, waits for the copy up, and for the copy into the order of parameters or of a
//   secondary part.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/gather/gather_blocks.h"
#include "zero/engine/gather/gathered_unit.h"
#include "zero/engine/gather/secondary_parts.h"
#include "zero/engine/gather/shard_prefetches.h"
#include "zero/engine/gather/unit_uses.h"
#include "zero/engine/options/work_timer.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/plan/schedule/residency.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

// Questions of a gather about a shard whose update may still be running. By default no update runs.
struct ShardUpdates {
  std::function<bool(int unit)> current = [](int) { return true; };
  std::function<void(int unit)> complete = [](int) {};
  // Completes the unit's update. Copies parameters that are not on their tier yet to `into`. Returns the number of
  // elements, from the first, that are on their tier.
  std::function<std::int64_t(int unit, std::byte* into)> complete_into;
};

class Gatherer {
 public:
  // `parts` must outlive it.
  Gatherer(ShardedState& state, Communicator& comm, Ledger& ledger, UnitObserver& observer, SecondaryParts& parts,
           ShardUpdates updates = {}, Timeline* timeline = nullptr);
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  // Collective. No-ops for a unit that is resident (or begun). A unit with a current secondary part is gathered from
  // the parts of its group. A gather from all shards keeps a part if `way` is not kAll.
  void begin(int unit, GatherWay way = GatherWay::kAll);
  void ensure(int unit);
  // Local. No-op for a unit that is not resident; releasing a pinned unit is a bug.
  void release(int unit);
  // Collective. Waits for everything begun.
  void finish();

  // Collective. Gathers whole parameters from all shards after an update, if parameters are held whole. The unit is
  // unbound until they are complete.
  void refresh(int unit);

  // All Local.
  bool ready(int unit) const { return ready_[static_cast<std::size_t>(unit)]; }
  std::byte* data(int unit) const { return data_[static_cast<std::size_t>(unit)]; }
  const Residency& resident() const { return resident_; }
  // Returns resident units that are not in use, the least recently ensured first.
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
  Residency resident_;  // units with a gathered range to release; empty if parameters are whole
  ShardPrefetches prefetches_;
  std::vector<Work> pending_;   // by unit
  std::vector<bool> keeps_;     // by unit: its gather keeps a secondary part
  std::deque<int> refreshing_;  // units whose refresh may be pending, the oldest first
  std::vector<bool> ready_;     // bound and complete
  std::vector<std::byte*> data_;
};

}  // namespace zero
