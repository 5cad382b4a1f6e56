// DeviceCommunicator: the collectives of units on GPUs, directly between the GPUs' memories.
//
//   DeviceCommunicator comm(units, device, open_device_link(units, device));
//   follow(device, Lane::kDown, Lane::kUpdate);                   // the shard is updated before it is sent
//   Work gather = comm.all_gather(shard, whole, {.unit = 3});     // addresses on the device; queued at once
//   gather.wait();                                                // the host waits for the ranks and for the bytes
//   follow(device, Lane::kCompute, Lane::kUp);
//
// A DeviceLink (NCCL) moves the bytes, in the lane kGather. The kernel kRankSum sums them in the lane kReduce, in rank
// order and fp32: the bits are those of every other transport. One rank needs only copies and the kernel, and no link.
//
// The control communicator carries the signature of each collective. So wait() compares the ranks' calls, and names a
// late or dead rank as the control communicator does. It asks the link only after all ranks have begun. While bytes
// move, the host polls the device and the link, and looks for dead ranks. A failure or a timeout calls
// DeviceLink::abort(), so no lane waits forever, and throws CommError; later calls throw it again.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/comm/device_link.h"
#include "zero/comm/rank_sum.h"
#include "zero/comm/signature.h"
#include "zero/device/device.h"

namespace zero {

class DeviceCommunicator final : public Communicator {
 public:
  struct Options {
    // Bytes of staging, raised to the least that works; the same on all ranks.
    std::int64_t staging_bytes = std::int64_t{64} << 20;
    // True: the link makes the sums, in the inputs' type and its own order, for equal blocks only. No staging is
    // needed, and this rank's block of the input is overwritten; the kernel casts it and takes its statistics. The same
    // on all ranks.
    bool linked_sums = false;
    // Ranks that one kernel sums; more ranks are summed by several kernels, one after the other.
    int ranks_of_a_kernel = static_cast<int>(RankSumArguments::kMost);
  };
  // Collective: connects all ranks. `control`: a communicator of the same ranks over any transport of the host, a group
  // that nobody else uses. `control` and `device` must outlive this object, and this object its works. `link`: null for
  // one rank. Throws CommError if the ranks do not connect; DeviceError, ConfigError ("memory").
  DeviceCommunicator(Communicator& control, Device& device, std::unique_ptr<DeviceLink> link)
      : DeviceCommunicator(control, device, std::move(link), Options{}) {}
  DeviceCommunicator(Communicator& control, Device& device, std::unique_ptr<DeviceLink> link, const Options& options);
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;
  // Collective: waits for the other ranks.
  ~DeviceCommunicator() override;

  // Local. Waits for queued work up to the timeout, and then ends it; during the unwinding of an exception, it ends the
  // work at once. From then on no lane waits for another rank. Never throws; later calls fail.
  void close() noexcept;

  int rank() const override { return control_.rank(); }
  int world() const override { return control_.world(); }
  std::string_view transport() const override { return link_ == nullptr ? control_.transport() : "nccl"; }
  // Callers order lanes as for StagedCommunicator, except that an output is written from the call on, not from wait():
  // - before the call, the input's lane (kReduce for a reduction, else kDown) follows the writers of the input, and kUp
  //   follows earlier users of the output;
  // - after wait(), a lane that uses the output follows kUp.
  // Inputs are free after wait(), so drain() waits for nothing.
  [[nodiscard]] Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  [[nodiscard]] Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  [[nodiscard]] Work broadcast(std::span<std::byte> data, int root, CommTag tag) override;
  [[nodiscard]] Work send(std::span<const std::byte> data, int to, CommTag tag) override;
  [[nodiscard]] Work receive(std::span<std::byte> data, int from, CommTag tag) override;
  [[nodiscard]] Work barrier(CommTag tag) override { return control_.barrier(tag); }
  // Receives the other ranks' blocks in tiles, into staging of a fixed size, which the owner charges (held_bytes(),
  // bytes_of()).
  [[nodiscard]] Work reduce_scatter(const ReduceScatter& request, CommTag tag) override;
  [[nodiscard]] Allocation allocate(std::size_t bytes, Written written) override;
  void note_step(std::int64_t steps) override { control_.note_step(steps); }

  // Return only bytes between devices, and seconds of waiting for them. The control communicator counts its own.
  Traffic traffic() const override { return traffic_; }
  double waited_seconds() const override { return waited_seconds_; }
  std::chrono::milliseconds timeout() const override { return control_.timeout(); }

  // Local. Sets what the host does while it waits for a device without a link (join_working()). `work` must use no
  // communicator.
  void while_waiting(std::function<bool()> work) { work_meanwhile_ = std::move(work); }

  // Local. Returns the bytes of the device that this object holds.
  std::int64_t held_bytes() const;
  // Local. Returns the same for `world` ranks with a link, before there is one.
  static std::int64_t bytes_of(int world, const Options& options);

 private:
  class Queued;
  struct Handshake;
  struct Sum;
  struct Failure {
    int rank;
    std::string operation, reason;
  };

  void connect();
  // ---- one collective: its handshake, its messages, its Work
  // Begins the handshake of the next collective, over the control communicator.
  std::unique_ptr<Handshake> shake_hands(Operation operation, CommTag tag, std::size_t bytes, int root = -1);
  std::unique_ptr<Handshake> shake_hands_with(int peer, CommTag tag, std::size_t bytes, std::uint64_t number);
  std::span<const std::byte> remember(const Signature& own);
  // Makes the Work for everything that is queued in `lane` so far.
  Work queued(std::unique_ptr<Handshake> handshake, Lane lane);

  void follow_both();
  // Queues messages in kGather, after its earlier work.
  void exchange(std::span<const DeviceLink::Sent> sent, std::span<const DeviceLink::Received> received,
                std::span<const Access> accesses, const Signature& what);
  // Waits until the link has queued the work.
  void settle(DeviceLink::State state, const Signature& what);
  // Waits on the host until `mark` is reached.
  void await(const Mark& mark, const Signature& what);
  // Waits on the host for the other ranks' signatures, and compares them.
  void compare(Handshake& handshake);

  void count(std::size_t sent, std::size_t received, CommTag tag);

  // ---- a sum, in tiles
  // bytes of both slots; 0: a sum needs no staging
  static std::int64_t staging_of(int world, const Options& options);
  static std::int64_t partial_of(int world, const Options& options);
  void prepare_sums(const Options& options);
  void receive_tile(const Sum& sum, std::int64_t first, std::byte* slot);
  void sum_tile(const Sum& sum, std::int64_t first, const std::byte* slot);
  void sum_in_tiles(const Sum& sum);
  void sum_by_link(const Sum& sum);
  std::size_t take_stats();
  StatsLimbs* stats_at(std::size_t number, const Allocation& memory) const;

  // ---- failures
  void check_usable() const;
  void look_for_the_dead();
  void abandon() noexcept;
  int world_rank(int rank) const;
  [[noreturn]] void fail(const Signature& what, const std::string& reason);
  [[noreturn]] void fail(Failure failure);

  Communicator& control_;
  Device& device_;
  const bool linked_sums_;
  const int ranks_of_a_kernel_;
  const int num_exceptions_;
  Allocation staging_;             // two slots
  Allocation partial_;             // first partial sum if there are more ranks than a kernel takes; else empty
  Allocation stats_, stats_down_;  // statistics of sums in flight, on the device and on the host
  std::vector<bool> stats_taken_;
  std::array<Mark, 2> slot_free_;  // reached after the last sum from each slot
  std::size_t next_slot_ = 0;
  std::vector<Signature> sent_;  // ring of own signatures that peers may still read
  std::size_t num_remembered_ = 0;
  std::uint64_t sequence_ = 0;
  std::map<int, std::uint64_t> num_sent_, num_received_;  // numbers of messages, by peer
  Mark last_;                                             // reached after all queued work
  Traffic traffic_;
  double waited_seconds_ = 0;
  std::unique_ptr<Failure> failure_;
  bool closed_ = false;
  std::function<bool()> work_meanwhile_;
  std::unique_ptr<DeviceLink> link_;  // destroyed before the memory that it reads
};

}  // namespace zero
