// SecondaryParts: this rank's parts of gathered weights, from a unit's first gather to its update.
//
//   SecondaryParts parts(state, comms.secondary, ledger);
//   parts.keep(u, block);                        // after a gather from all shards
//   parts.gather(u, block).wait();               // Collective over the secondary group: the same bytes
//   parts.outdate();                             // weights change
//
// See zero/plan/units/secondary.h. All parts are in one range of memory that peers read, allocated with the engine and
// charged as MemoryTag::kSecondary. Parts follow the order of shards. All ranks call keep(), outdate() and gather()
// alike, so each knows the parts of its peers. On a device that the host cannot read, this memory is the device's, and
// `group` stages messages (StagedCommunicator). keep() copies a part in kGather, after the gathered unit was copied up
// (kUp), and gather() copies it down after that. keep() may overwrite the previous part, because the host has waited
// for its last gather.
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
  // Keeps no parts.
  SecondaryParts() = default;
  // Collective over `group`, the ranks that together have all parts; null: none are kept. Both must outlive it.
  SecondaryParts(const ShardedState& state, Communicator* group, Ledger& ledger);
  SecondaryParts(const SecondaryParts&) = delete;
  SecondaryParts& operator=(const SecondaryParts&) = delete;

  // All Local. No-ops if no parts are kept; then no unit has a current part.
  bool current(int unit) const { return !aside_ && !current_.empty() && current_[static_cast<std::size_t>(unit)]; }
  // Keeps this rank's part of `whole`, the unit's padded range in the order of shards. Waits until peers have read the
  // part before it. Returns whether kGather reads `whole`.
  bool keep(int unit, const std::byte* whole);
  void outdate();
  void outdate(int unit);

  // Local. Turns parts off (nothing is current, nothing is kept) or on again. Returns whether they were off.
  bool set_aside(bool aside) { return std::exchange(aside_, aside); }

  // Collective over the group. Gathers into the unit's padded range; the unit's part must be current.
  [[nodiscard]] Work gather(int unit, std::span<std::byte> whole);

 private:
  std::span<std::byte> part(int unit) const;

  const ShardedState* state_ = nullptr;
  Communicator* group_ = nullptr;
  Buffer window_;
  // By unit; empty if no parts are kept.
  std::vector<std::size_t> places_, sizes_;  // in the range of all parts, in bytes
  std::vector<bool> current_;
  bool aside_ = false;
};

// Turns parts off while it lives: weights that were gathered with a codec differ from the owners' weights. Null: no-op.
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
