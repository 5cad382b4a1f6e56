// StagedCommunicator: the communicator of units that lie on a device, over one that takes memory of the host.
//
//   StagedCommunicator staged(comm, device, ledger);
//   staged.all_gather(shard, whole, {.unit = 3}).wait();    // addresses on the device
//
// An input is copied down into pinned memory when its collective begins, behind all that is queued on the device by then; an
// output is copied up in wait(), before all that is queued afterwards. So the order of calls is the order on the device, as
// it is on the host, and any transport will do. Sums are made on the host, with the bits that they have there.
//
// A Communicator in every respect. allocate() gives memory of the device, which no peer reads: it is Local. drain() also
// waits for all work of the device, so that what it has used may be used again. Staging is in the ledger. `comm` and `device`
// outlive it.
#pragma once

#include <memory>

#include "zero/comm/communicator.h"
#include "zero/device/device.h"
#include "zero/memory/block_pool.h"

namespace zero {

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(Communicator& comm, Device& device, Ledger& ledger);

  int rank() const override { return comm_.rank(); }
  int world() const override { return comm_.world(); }
  std::string_view transport() const override { return comm_.transport(); }
  [[nodiscard]] Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  [[nodiscard]] Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  [[nodiscard]] Work broadcast(std::span<std::byte> data, int root, CommTag tag) override;
  [[nodiscard]] Work send(std::span<const std::byte> data, int to, CommTag tag) override;
  [[nodiscard]] Work receive(std::span<std::byte> data, int from, CommTag tag) override;
  [[nodiscard]] Work barrier(CommTag tag) override { return comm_.barrier(tag); }
  [[nodiscard]] Work reduce_scatter(const ReduceScatter& request, CommTag tag) override;
  [[nodiscard]] Allocation allocate(std::size_t bytes, Written written) override;
  void drain() override;
  void note_step(std::int64_t steps) override { comm_.note_step(steps); }
  Traffic traffic() const override { return comm_.traffic(); }
  double waited_seconds() const override { return comm_.waited_seconds(); }
  std::chrono::milliseconds timeout() const override { return comm_.timeout(); }

 private:
  class Staged;
  // Bytes of the host that stand for bytes of the device, until they are given back.
  std::span<std::byte> stage(std::size_t bytes);
  std::span<std::byte> bring_down(std::span<const std::byte> bytes);
  Work returning(Work work, std::span<std::byte> up, std::span<std::byte> to, std::span<std::byte> also = {});

  Communicator& comm_;
  Device& device_;
  BlockPool staging_;
};

}  // namespace zero
