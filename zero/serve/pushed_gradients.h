// PushedGradients: this server's parts of the gradients that workers have pushed and no update has used.
//
//   std::byte* at = pushed.begin(worker, header, present);     // room for a push
//   ... receive into pushed.part(at, unit) for each trained unit ...
//   engine.half_steps().apply(pushed.sum_of({0, 1}, micro_batches), lr);    // the oldest push of each of these workers
//   pushed.drop_oldest(0); pushed.drop_oldest(1);
//
// Memory is charged as staging, and used again for later pushes. Local.
#pragma once

#include <deque>
#include <vector>

#include "zero/engine/states/given_gradients.h"
#include "zero/memory/disk/block_pool.h"
#include "zero/serve/push_layout.h"
#include "zero/serve/push_messages.h"

namespace zero {

class PushedGradients {
 public:
  // `server`: the rank that owns these parts. The layout outlives this object.
  PushedGradients(const PushLayout& layout, int server, int workers, Ledger& ledger);

  // Returns memory for a push, which is now the worker's newest.
  std::byte* begin(int worker, const PushHeader& header, std::vector<bool> present);
  std::span<std::byte> part(std::byte* push, const Unit& unit) const;
  void drop_oldest(int worker);
  void drop_newest(int worker);
  const PushHeader& oldest(int worker) const { return pushes_of(worker).front().header; }
  // Returns the oldest push's part of a trained unit. The caller may change it in place.
  std::span<std::byte> oldest_part(int worker, const Unit& unit) const {
    return part(pushes_of(worker).front().data, unit);
  }

  // Returns the sum of the oldest pushes of `workers`, valid until one of them is dropped. `micro_batches`: the
  // gradients of each push that an update averages; 1: it takes their sum.
  GivenGradients sum_of(const std::vector<int>& workers, int micro_batches) const;

 private:
  struct Push {
    PushHeader header;
    std::vector<bool> present;
    std::byte* data = nullptr;
  };
  const std::deque<Push>& pushes_of(int worker) const { return pushes_[static_cast<std::size_t>(worker)]; }
  std::size_t shard_bytes(const Unit& unit) const;

  const PushLayout& layout_;
  int server_;
  std::vector<std::size_t> offsets_;  // by unit
  std::size_t bytes_ = 0;
  BlockPool blocks_;
  std::vector<std::deque<Push>> pushes_;  // by worker, the oldest first
};

}  // namespace zero
