// StagedCommunicator: a communicator of units on a device, over a communicator of host memory (any transport).
//
//   StagedCommunicator staged(comm, device, ledger, Begin::kWhenDown);
//   follow(device, Lane::kDown, Lane::kUpdate);                     // the shard is updated before it is copied down
//   Work gather = staged.all_gather(shard, whole, {.unit = 3});     // addresses on the device; returns at once
//   gather.wait();                                                  // the host waits for the ranks
//   follow(device, Lane::kCompute, Lane::kUp);                      // and the model for the copy up
//
// The call copies an input down into pinned memory: a reduction's in kReduce, others in kDown. wait() copies an output
// up in kUp. Sums are computed on the host in between, with the host's bits. The caller orders the lanes:
// - before the call, the lane of the input follows the lanes that wrote it;
// - before wait(), kUp follows the lanes that used the output before;
// - after wait(), a lane that uses the output follows kUp.
// Local or Collective as for any Communicator. Staging is in the ledger; its blocks are freed with the mark of their
// last copy. `comm` and `device` must outlive it, and it must outlive its works.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "zero/comm/communicator.h"
#include "zero/device/device.h"
#include "zero/memory/disk/block_pool.h"

namespace zero {

// kWhenDown: a collective begins between the ranks when its input is copied down and all earlier collectives have
// begun. The order is the same on all ranks. The host checks for this at the next call, and waits for it only in
// wait(). A backward pass therefore continues while a gradient is being computed. Ranks begin at different times, so
// nothing else may use `comm` (EngineComms::units). kAtOnce: waits for the copy in the call, and may share `comm`.
enum class Begin : std::uint8_t { kWhenDown, kAtOnce };

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(Communicator& comm, Device& device, Ledger& ledger, Begin begin = Begin::kAtOnce);
  StagedCommunicator(const StagedCommunicator&) = delete;
  StagedCommunicator& operator=(const StagedCommunicator&) = delete;
  ~StagedCommunicator() override;  // waits until no peer reads staged bytes, except during an exception

  // Sets work for the host while an input is copied down (join_working()). It must not use a communicator.
  void while_waiting(std::function<bool()> work) { work_meanwhile_ = std::move(work); }
  // Sets the sum of bytes that were copied down, instead of `comm`'s reduce_scatter(). Sums begin in the order of
  // calls, and works must be waited for in that order.
  using Sum = std::function<Work(const ReduceScatter&, CommTag)>;
  void sum_by(Sum sum) { sum_ = std::move(sum); }

  int rank() const override { return comm_.rank(); }
  int world() const override { return comm_.world(); }
  std::string_view transport() const override { return comm_.transport(); }
  [[nodiscard]] Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  [[nodiscard]] Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  [[nodiscard]] Work broadcast(std::span<std::byte> data, int root, CommTag tag) override;
  [[nodiscard]] Work send(std::span<const std::byte> data, int to, CommTag tag) override;
  [[nodiscard]] Work receive(std::span<std::byte> data, int from, CommTag tag) override;
  [[nodiscard]] Work barrier(CommTag tag) override;
  [[nodiscard]] Work reduce_scatter(const ReduceScatter& request, CommTag tag) override;
  // Local. Allocates memory of the device, which no peer reads, so drain() has nothing to wait for.
  [[nodiscard]] Allocation allocate(std::size_t bytes, Written written) override;
  void drain() override {}
  void note_step(std::int64_t steps) override { comm_.note_step(steps); }
  Traffic traffic() const override { return comm_.traffic(); }
  double waited_seconds() const override { return comm_.waited_seconds(); }
  std::chrono::milliseconds timeout() const override { return comm_.timeout(); }

 private:
  class Staged;
  // Returns pinned bytes of the host for bytes of the device, until they are released. `first`: the lane that writes
  // them; none: the host.
  std::span<std::byte> stage(std::size_t bytes, std::optional<Lane> first = {});
  std::span<std::byte> bring_down(Lane lane, std::span<const std::byte> bytes);
  struct Blocks {
    std::span<std::byte> made{}, to{};  // the output, and its place on the device
    std::span<std::byte> sent{};        // an input with staging of its own
  };
  // `lane`: the lane that copies the input down.
  Work queue(Lane lane, const Blocks& blocks, std::function<Work()> begin);
  void begin_those_down();
  void begin_until(const Staged& last);
  void begin_first();

  Communicator& comm_;
  Device& device_;
  Begin begin_;
  BlockPool staging_;
  std::deque<Staged*> queued_;  // collectives that have not begun, in the order of calls
  std::function<bool()> work_meanwhile_;
  Sum sum_;
};

}  // namespace zero
