// StagingMemory: memory into which asynchronous saves copy a rank's image, kept from one save to the next. Memory that
// is fresh from the system costs a page fault for each of its pages, and those take longer than the copy.
//
//   StagingMemory memory(engine.resources());
//   if (memory.has_room(bytes)) lent = memory.lend(bytes);  // on huge pages; those of the last save where they suffice
//   ...                                                     // copied and written
//   memory.take_back(lent);                                 // and kept
//   memory.yield();                                         // each step
//
// Nothing is held before the first save. From then on it stands in the ledger (staging, on the host) until the machine
// is short of memory. That is so when less than a third of it is free beside it, when less than twice the reserve is
// free, or when a process waits for memory (MemoryPolicy). The reserve is taken once, as the memory monitor takes its
// own: where memory gets short from step to step, this is gone before a state moves. (States may go first where memory
// goes within a step, or where others of them have yet to touch theirs.) Then the next save takes fresh memory, or
// none.
//
// Local, unless said otherwise; goes before the engine.
#pragma once

#include <limits>
#include <span>

#include "zero/engine/engine_resources.h"
#include "zero/memory/block_pool.h"

namespace zero {

class StagingMemory {
 public:
  explicit StagingMemory(const EngineResources& engine);

  // Collective. Has every machine room for such an image of each of its ranks? Where one has not, what is kept is given
  // back.
  [[nodiscard]] bool has_room(std::int64_t bytes);

  // `bytes` whose contents are whatever they were. Throws ConfigError where the system refuses.
  std::span<std::byte> lend(std::int64_t bytes);
  void take_back(std::span<std::byte> lent);

  // Gives back what is not lent: where the machine is short of memory (it looks ten times a second at most); whatever.
  void yield();
  void give_back() { blocks_.trim(0); }

 private:
  bool is_short() const;
  // Of what is not lent: one block, as long as nothing else is lent.
  std::int64_t idle_bytes() const { return num_lent_ == 0 ? blocks_.held_bytes() : 0; }

  EngineResources engine_;
  std::int64_t reserve_;  // of this machine
  BlockPool blocks_;
  int num_lent_ = 0;
  double looked_ = -std::numeric_limits<double>::infinity();
};

// Collective. Whether every machine has memory for `bytes` more of each of its ranks, and keeps a quarter of its free
// memory.
bool memory_has_room(const EngineResources& engine, std::int64_t bytes);

}  // namespace zero
