// SecondaryParts: this rank's parts of gathered weights, from a unit's first gather to its update (zero/plan/units/secondary.h).
//
//   SecondaryParts parts(state, comms.secondary, ledger);
//   parts.keep(u, block);                        // what was gathered from all shards
//   parts.gather(u, block).wait();               // Collective over the secondary group: the same bytes
//   parts.outdate();                             // weights change
//
// All parts lie in one window that peers read, taken when an engine is made and charged as MemoryTag::kSecondary. Parts are in
// the order of shards. All ranks call keep(), outdate() and gather() alike, so that each knows what its peers have.
//
// On a device that the host cannot read the window is its memory, and `group` stages what crosses (StagedCommunicator): a part is
// copied in kGather, behind the way up of what was gathered, and comes down for a gather behind that copy. The one before it has
// been gathered: the host has seen that.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/memory/account/buffer.h"
#include "zero/plan/units/partition.h"

namespace zero {

class SecondaryParts {
 public:
  // None are kept.
  SecondaryParts() = default;
  // Collective over `group`, the ranks that have all parts together; null: none are kept. Both outlive it.
  SecondaryParts(const ShardedState& state, Communicator* group, Ledger& ledger);
  SecondaryParts(const SecondaryParts&) = delete;
  SecondaryParts& operator=(const SecondaryParts&) = delete;

  // Local, all of these. No-ops where none are kept; a unit has no part that is current then.
  bool current(int unit) const { return !aside_ && !current_.empty() && current_[static_cast<std::size_t>(unit)]; }
  // `whole`: the unit's padded range, shard after shard. Waits until peers have read the part before it. True: kGather reads
  // `whole`.
  bool keep(int unit, const std::byte* whole);
  void outdate();
  void outdate(int unit);

  // Local. From now on there are none: nothing is current, nothing is kept; or as before. Returns whether that was so.
  bool set_aside(bool aside) { return std::exchange(aside_, aside); }

  // Collective over the group. Into the unit's padded range; a part must be current.
  [[nodiscard]] Work gather(int unit, std::span<std::byte> whole);

 private:
  std::span<std::byte> part(int unit) const;

  const ShardedState* state_ = nullptr;
  Communicator* group_ = nullptr;
  Buffer window_;
  // By unit; empty where none are kept.
  std::vector<std::size_t> places_, sizes_;  // in the window, bytes
  std::vector<bool> current_;
  bool aside_ = false;
};

// Within it there are no parts: what was gathered in a code is none of what the owners hold. Null: they stay.
class PartsAside {
 public:
  explicit PartsAside(SecondaryParts* parts) : parts_(parts), before_(parts != nullptr && parts->set_aside(true)) {}
  ~PartsAside() {
    if (parts_ != nullptr) parts_->set_aside(before_);
  }
  PartsAside(const PartsAside&) = delete;
  PartsAside& operator=(const PartsAside&) = delete;

 private:
  SecondaryParts* parts_;
  bool before_;
};

}  // namespace zero
