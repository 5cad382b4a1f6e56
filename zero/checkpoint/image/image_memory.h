// ImageMemory: memory into which asynchronous saves copy a rank's image, kept from one save to the next.
//
//   ImageMemory memory(engine.resources());
//   if (memory.has_room(bytes)) lent = memory.lend(bytes);  // on huge pages; memory of the last save if it suffices
//   ...                                                     // copied and written
//   memory.take_back(lent);                                 // and kept
//   memory.yield();                                         // each step
//
// Kept memory avoids the page faults of fresh memory, which take longer than the copy. It is allocated by the first
// save, and then stays in the ledger (staging, on the host) until the machine is short of memory. The next save then
// allocates fresh memory, or none. The reserve is computed once, as the memory monitor does it. So if memory shrinks
// from step to step, this memory is freed before states move. (States may move first if memory shrinks within a step,
// or if other ranks have not touched their memory yet.) Local, except where noted. Destroy it before the engine.
#pragma once

#include <limits>
#include <span>

#include "zero/engine/options/engine_resources.h"
#include "zero/memory/disk/block_pool.h"

namespace zero {

class ImageMemory {
 public:
  explicit ImageMemory(const EngineResources& engine);

  // Collective. Returns true if every machine has memory for such an image of each of its ranks. Otherwise frees the
  // kept memory.
  [[nodiscard]] bool has_room(std::int64_t bytes);

  // Returns `bytes` of memory with undefined contents. Throws ConfigError if the system refuses.
  std::span<std::byte> lend(std::int64_t bytes);
  void take_back(std::span<std::byte> lent);

  // Frees memory that is not lent: yield() if the machine is short of memory (checked at most ten times a second),
  // give_back() always.
  void yield();
  void give_back() { blocks_.trim(0); }

 private:
  // Returns true if a process waits for memory (MemoryPolicy), or if too little memory is free. That is less than twice
  // the reserve, or less than a third of the memory that this machine's ranks keep.
  bool is_short() const;
  // Returns the bytes that are not lent: one block, as long as nothing is lent.
  std::int64_t idle_bytes() const { return num_lent_ == 0 ? blocks_.held_bytes() : 0; }

  EngineResources engine_;
  std::int64_t reserve_;  // bytes, of this machine
  BlockPool blocks_;
  int num_lent_ = 0;
  double looked_ = -std::numeric_limits<double>::infinity();
};

// Collective. Returns true if every machine has memory for `bytes` more on each of its ranks, with a quarter of its
// free memory to spare.
bool memory_has_room(const EngineResources& engine, std::int64_t bytes);

}  // namespace zero
