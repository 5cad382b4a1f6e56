// UnitUses: the gathered units in use, the written units among them, and the order of last use.
//
//   uses.pin(u, data);  uses.mark_written(u);  ...  uses.unpin(u);   // the last unpin() stores the writes
//   uses.idle_of(gathered)                                           // may be released, the least recently used first
//
// Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/gather/gather_blocks.h"
#include "zero/engine/gather/secondary_parts.h"
#include "zero/engine/states/sharded_state.h"

namespace zero {

class UnitUses {
 public:
  // A written unit loses its current secondary part. All references must outlive it.
  UnitUses(ShardedState& state, Communicator& comm, const GatherBlocks& blocks, SecondaryParts& parts);

  // Pins the unit. `data`: the whole unit's address while it is pinned.
  void pin(int unit, std::byte* data);
  // Unpins the unit. The last unpin() of a written unit stores its writes.
  void unpin(int unit);
  // Marks the unit as written by an owner of a pin.
  void mark_written(int unit);
  // Waits until late peers have read parameters of this rank in place (whole parameters, or fetched shards). Call it
  // before a user outside training may write.
  void before_writing();
  void note_access(int unit);

  bool is_pinned(int unit) const { return pins_[static_cast<std::size_t>(unit)] > 0; }
  std::vector<int> pinned() const;
  // Returns the unpinned ones of `units`, the least recently accessed first.
  std::vector<int> idle_of(std::vector<int> units) const;

 private:
  ShardedState& state_;
  Communicator& comm_;
  const GatherBlocks& blocks_;
  SecondaryParts& parts_;
  // By unit.
  std::vector<int> pins_;
  std::vector<std::byte*> data_;
  std::vector<bool> written_;
  std::vector<std::int64_t> last_access_;
  std::int64_t num_accesses_ = 0;
};

}  // namespace zero
