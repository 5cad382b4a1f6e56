// UnitUses: the gathered units that are in use, the ones that are being written, and the order of last use.
//
//   uses.pin(u, data);  uses.mark_written(u);  ...  uses.unpin(u);   // the last unpin() stores what was written
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
  // A unit that was written has no secondary part that is current. All outlive it.
  UnitUses(ShardedState& state, Communicator& comm, const GatherBlocks& blocks, SecondaryParts& parts);

  // `data`: where the whole unit lies, as long as it is pinned.
  void pin(int unit, std::byte* data);
  // When the last pin of a written unit goes, what was written is stored.
  void unpin(int unit);
  // Whoever holds a pin of it writes.
  void mark_written(int unit);
  // Where parameters are whole, or shards are brought, late peers may still read them here: waits for those. Whoever
  // uses a unit outside training may write.
  void before_writing();
  void note_access(int unit);

  bool is_pinned(int unit) const { return pins_[static_cast<std::size_t>(unit)] > 0; }
  std::vector<int> pinned() const;
  // Of `units`, those that nobody pins, the least recently accessed first.
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
