// PushedGradients: the gradients that workers have pushed and no update has used: of each its part that this server owns.
//
//   std::byte* at = pushed.begin(worker, header, present);     // room for a push
//   ... receive into pushed.part(at, unit) for each trained unit ...
//   engine.served().apply(pushed.sum_of({0, 1}, micro_batches), lr);    // the oldest push of each of these workers
//   pushed.drop_oldest(0); pushed.drop_oldest(1);
//
// Memory is charged as staging, and kept for later pushes. Local.
#pragma once

#include <deque>
#include <vector>

#include "zero/engine/given_gradients.h"
#include "zero/memory/block_pool.h"
#include "zero/serve/push_layout.h"
#include "zero/serve/push_messages.h"

namespace zero {

class PushedGradients {
 public:
  // Of server `server`; the layout outlives it.
  PushedGradients(const PushLayout& layout, int server, int workers, Ledger& ledger);

  std::byte* begin(int worker, const PushHeader& header, std::vector<bool> present);
  std::span<std::byte> part(std::byte* push, const Unit& unit) const;
  void drop_oldest(int worker);
  void drop_newest(int worker);
  const PushHeader& oldest(int worker) const { return pushes_of(worker).front().header; }
  // The oldest push's part of a trained unit, to be changed in place.
  std::span<std::byte> oldest_part(int worker, const Unit& unit) const {
    return part(pushes_of(worker).front().data, unit);
  }

  // `micro_batches`: gradients that each push is the mean of; 1 where it is their sum. Valid until one of them is dropped.
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
