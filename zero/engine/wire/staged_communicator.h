// StagedCommunicator: the communicator of units that lie on a device, over one that takes memory of the host.
//
//   StagedCommunicator staged(comm, device, ledger, Begin::kWhenDown);
//   follow(device, Lane::kDown, Lane::kUpdate);                     // the shard is updated before it comes down
//   Work gather = staged.all_gather(shard, whole, {.unit = 3});     // addresses on the device; returns at once
//   gather.wait();                                                  // the host waits for the ranks
//   follow(device, Lane::kCompute, Lane::kUp);                      // and the model for the copy up
//
// An input is copied down into pinned memory when its collective is called: a reduction's in kReduce, others in kDown.
// An output is copied up in kUp, in wait(). Sums are made on the host between the two, with the bits that they have there;
// over copies of the model, too, where sum_by() says how.
// So any transport will do. Who calls orders these lanes:
// - before the call, the lane of the input follows those that wrote it;
// - before wait(), kUp follows the lanes that used the output before;
// - after wait(), a lane that uses the output follows kUp.
//
// When its input is down, and those called before it have begun, the collective begins between the ranks: in the order of
// calls, which is the same on all of them. The host sees that at the next call of this communicator, and waits for it in wait()
// alone; so a backward pass goes on while a gradient is still being computed. Some ranks begin earlier than others, and `comm`
// must be theirs alone (EngineComms::units). Begin::kAtOnce waits in the call instead, and shares it with others.
//
// A Communicator in every respect. allocate() gives memory of the device, which no peer reads: it is Local, and drain()
// has nothing to wait for. Staging is in the ledger; its blocks go back with the mark of their last copy. `comm` and
// `device` outlive it, and it its works.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "zero/comm/communicator.h"
#include "zero/device/device.h"
#include "zero/memory/disk/block_pool.h"

namespace zero {

enum class Begin : std::uint8_t { kWhenDown, kAtOnce };

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(Communicator& comm, Device& device, Ledger& ledger, Begin begin = Begin::kAtOnce);
  StagedCommunicator(const StagedCommunicator&) = delete;
  StagedCommunicator& operator=(const StagedCommunicator&) = delete;
  ~StagedCommunicator() override;  // waits until no peer reads staged bytes, but not on the way out of an exception

  // What the host does while an input comes down (join_working()). It uses no communicator.
  void while_waiting(std::function<bool()> work) { work_meanwhile_ = std::move(work); }
  // How bytes that have come down are summed, in place of `comm`'s reduce_scatter(): in the order of calls. Works are waited for in
  // that order, too.
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
  [[nodiscard]] Allocation allocate(std::size_t bytes, Written written) override;
  void drain() override {}
  void note_step(std::int64_t steps) override { comm_.note_step(steps); }
  Traffic traffic() const override { return comm_.traffic(); }
  double waited_seconds() const override { return comm_.waited_seconds(); }
  std::chrono::milliseconds timeout() const override { return comm_.timeout(); }

 private:
  class Staged;
  // Bytes of the host that stand for bytes of the device, until they are given back. `first`: the lane that writes them;
  // without one, the host.
  std::span<std::byte> stage(std::size_t bytes, std::optional<Lane> first = {});
  std::span<std::byte> bring_down(Lane lane, std::span<const std::byte> bytes);
  struct Blocks {
    std::span<std::byte> made{}, to{};  // the output, and where it goes up
    std::span<std::byte> sent{};        // an input of its own
  };
  // `lane`: in which the input comes down.
  Work queue(Lane lane, const Blocks& blocks, std::function<Work()> begin);
  void begin_those_down();
  void begin_until(const Staged& last);
  void begin_first();

  Communicator& comm_;
  Device& device_;
  Begin begin_;
  BlockPool staging_;
  std::deque<Staged*> queued_;  // that have not begun, in the order of calls
  std::function<bool()> work_meanwhile_;
  Sum sum_;
};

}  // namespace zero
