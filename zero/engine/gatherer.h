// Gatherer: brings whole parameters to where operators can read them, and takes them away again.
//
// It obeys: begin(), ensure() and release() are called by the executor, which knows the schedule; what is pinned is
// never released. Where parameters are held whole, ensure() only waits for the all-gather that followed the last
// update.
//
//   gatherer.begin(u);          // Collective: tells peers, allocates; nothing is copied yet
//   gatherer.ensure(u);         // Collective: the unit is bound, its parameters can be read
//   gatherer.release(u);        // Local
//
// The observer hears where a unit's bytes are: bind(u, data), and bind(u, null) when they are gone.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/phase_timer.h"
#include "zero/engine/sharded_state.h"
#include "zero/memory/block_pool.h"
#include "zero/plan/residency.h"

namespace zero {

class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  // `data`: the unit's flat range in its dtype, valid until the next call for this unit; null: released.
  virtual void bind(int unit, std::byte* data) = 0;
};

class Gatherer {
 public:
  Gatherer(ShardedState& state, Communicator& comm, Ledger& ledger, UnitObserver& observer,
           Timeline* timeline = nullptr);

  // Idle blocks beyond it are given back: as new ones are needed, or now.
  void set_capacity(std::int64_t bytes) { capacity_bytes_ = bytes; }
  void give_back_idle_blocks() { pool_.trim(capacity_bytes_); }
  // Asked of a shard whose update may still run. By default none does.
  struct Updates {
    std::function<bool(int unit)> current = [](int) { return true; };
    std::function<void(int unit)> complete = [](int) {};
    // Completes the unit and copies to `into` what of it is not where it belongs yet; returns how many elements, from
    // the first, are.
    std::function<std::int64_t(int unit, std::byte* into)> complete_into;
  };
  void set_updates(Updates updates) { updates_ = std::move(updates); }
  // Units are gathered into another's blocks, which peers may have been reading: before the first gather.
  void borrow_blocks(BlockPool& pool) { borrowed_ = &pool; }
  // Local. The state lies elsewhere now; nothing may be gathered.
  void placement_changed();
  // Local. A hint: this rank's shard of a unit that lies off the device begins to come, after those asked for before it
  // and as soon as it is updated. Asked in the order of the gathers.
  void fetch(int unit);
  // Begins those hints whose shard has been updated meanwhile.
  void pump() { begin_prefetches(); }
  // Nothing is coming any more; its contents may change.
  void cancel_prefetches();
  // Collective. No-ops for a unit that is resident (begun) already.
  void begin(int unit);
  void ensure(int unit);
  // Local. No-op for one that is not resident; a pinned one is a bug.
  void release(int unit);
  // Collective. Waits for everything begun.
  void finish();

  // Collective. After an update: whole parameters from everybody's shards (where they are held whole). Unbound until
  // they are there.
  void refresh(int unit);

  bool ready(int unit) const { return ready_[static_cast<std::size_t>(unit)]; }
  std::byte* data(int unit) const { return data_[static_cast<std::size_t>(unit)]; }
  const Residency& resident() const { return resident_; }
  // Resident units that nobody pins, the least recently ensured first.
  std::vector<int> releasable() const;

  void pin(int unit) { ++pins_[static_cast<std::size_t>(unit)]; }
  // When the last pin of a written unit goes, what was written is stored.
  void unpin(int unit);
  void mark_written(int unit);
  // Where parameters are whole, or shards are brought, late peers may still read them here: waits for those. Whoever
  // uses a unit outside training may write.
  void before_writing();
  std::vector<int> pinned() const;

  const PhaseTimer& timer() const { return timer_; }

 private:
  BlockPool& pool() { return borrowed_ != nullptr ? *borrowed_ : pool_; }
  std::byte* acquire(std::int64_t bytes);
  void begin_prefetches();

  ShardedState& state_;
  Communicator& comm_;
  Ledger& ledger_;
  UnitObserver& observer_;
  Timeline* timeline_;
  // By unit: its gather, from begin() to ensure().
  PhaseTimer timer_;
  std::vector<TimedSpan> spans_;
  Updates updates_;
  bool brings_shards_ = false;  // some parameters lie off the device: own shards are read by peers from gathered blocks
  BlockPool pool_;
  BlockPool* borrowed_ = nullptr;
  std::int64_t capacity_bytes_ = 0;
  Residency resident_;          // units whose gathered range is ours to release; empty where parameters are whole
  std::deque<int> wanted_;      // units whose shards are to come, and do not yet
  std::vector<Work> pending_;   // by unit
  std::deque<int> refreshing_;  // units whose refresh may be pending, the oldest first
  std::vector<bool> ready_;     // bound and complete
  std::vector<bool> written_;
  std::vector<std::byte*> data_;
  std::vector<int> pins_;
  std::vector<std::int64_t> last_use_;
  std::int64_t clock_ = 0;
};

}  // namespace zero
