// DeviceCommunicator: the collectives of units that lie on GPUs, between the GPUs' memories, without a way through the host.
//
//   DeviceCommunicator comm(units, device, open_device_link(units, device));
//   follow(device, Lane::kDown, Lane::kUpdate);                   // the shard is updated before it is sent
//   Work gather = comm.all_gather(shard, whole, {.unit = 3});     // addresses on the device; queued at once
//   gather.wait();                                                // the host waits for the ranks and for the bytes
//   follow(device, Lane::kCompute, Lane::kUp);
//
// A DeviceLink (NCCL) moves the bytes, all of them in the lane kGather. Sums are made on the device, in rank order and fp32, by the
// kernel kRankSum in the lane kReduce: the bits are those of every other transport. With Options::linked_sums the link makes them, in
// the inputs' type and an order of its own, of equal blocks alone: no staging is needed, this rank's block of the input is overwritten,
// and the kernel casts it, and takes its statistics. Who calls orders lanes as for StagedCommunicator, but
// that an output is written from the call on, not from wait():
// - before the call, the lane of the input (a reduction's is kReduce, others' kDown) follows those that wrote it, and kUp follows
//   those that used the output before;
// - after wait(), a lane that uses the output follows kUp.
//
// `control` is a communicator of the same ranks over any transport of the host, a group that nobody else uses. With each collective it
// carries its signature. So wait() compares the ranks' calls, names the rank that is late or has died as `control` names it, and
// looks at the link only once all ranks have begun. While bytes move, the host asks the device and the link, and looks for ranks that
// die. What fails, or takes longer than the timeout, ends in DeviceLink::abort(), so that no lane waits for good, and in a CommError;
// later calls throw it again.
//
// One rank needs no link: its gathers are copies on the device, its sums the kernel alone.
//
// A sum receives the others' blocks in tiles, into staging of a fixed size, which the owner charges (held_bytes(), bytes_of()). drain() has
// nothing to wait for: inputs are free after wait(). Collective: construction, which connects all ranks; the destructor waits for
// them. `control` and `device` outlive it, and it its works.
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
    std::int64_t staging_bytes = std::int64_t{64}
                                 << 20;  // wanted; the least that works where it is less. The same on all ranks
    bool linked_sums = false;            // of all ranks alike
    int ranks_of_a_kernel =
        static_cast<int>(RankSumArguments::kMost);  // more are summed by several, one after the other
  };
  // `link`: null for one rank. Throws CommError where the ranks do not connect; DeviceError, ConfigError ("memory").
  DeviceCommunicator(Communicator& control, Device& device, std::unique_ptr<DeviceLink> link)
      : DeviceCommunicator(control, device, std::move(link), Options{}) {}
  DeviceCommunicator(Communicator& control, Device& device, std::unique_ptr<DeviceLink> link, const Options& options);
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;
  ~DeviceCommunicator() override;

  // Local. Waits for what is queued, as long as the timeout, and ends it else; at once on the way out of an exception. From then on no
  // lane waits for another rank. Never throws; later calls fail.
  void close() noexcept;

  int rank() const override { return control_.rank(); }
  int world() const override { return control_.world(); }
  std::string_view transport() const override { return link_ == nullptr ? control_.transport() : "nccl"; }
  [[nodiscard]] Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  [[nodiscard]] Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  [[nodiscard]] Work broadcast(std::span<std::byte> data, int root, CommTag tag) override;
  [[nodiscard]] Work send(std::span<const std::byte> data, int to, CommTag tag) override;
  [[nodiscard]] Work receive(std::span<std::byte> data, int from, CommTag tag) override;
  [[nodiscard]] Work barrier(CommTag tag) override { return control_.barrier(tag); }
  [[nodiscard]] Work reduce_scatter(const ReduceScatter& request, CommTag tag) override;
  [[nodiscard]] Allocation allocate(std::size_t bytes, Written written) override;
  void note_step(std::int64_t steps) override { control_.note_step(steps); }

  // Bytes between devices alone, and seconds of waiting for these; control_'s are its own.
  Traffic traffic() const override { return traffic_; }
  double waited_seconds() const override { return waited_seconds_; }
  std::chrono::milliseconds timeout() const override { return control_.timeout(); }

  // Local. What the host does while it waits for a device that is linked with no other (join_working()). It uses no communicator.
  void while_waiting(std::function<bool()> work) { work_meanwhile_ = std::move(work); }

  // Local. Bytes of the device that this one holds.
  std::int64_t held_bytes() const;
  // Local. The same of `world` ranks with a link, before there is one.
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
  // Of the next collective; the control transport begins to carry it.
  std::unique_ptr<Handshake> shake_hands(Operation operation, CommTag tag, std::size_t bytes, int root = -1);
  std::unique_ptr<Handshake> shake_hands_with(int peer, CommTag tag, std::size_t bytes, std::uint64_t number);
  std::span<const std::byte> remember(const Signature& own);
  // Behind what is queued in `lane` by now.
  Work queued(std::unique_ptr<Handshake> handshake, Lane lane);

  void follow_both();
  // Queues messages in kGather, behind what is there.
  void exchange(std::span<const DeviceLink::Sent> sent, std::span<const DeviceLink::Received> received,
                std::span<const Access> accesses, const Signature& what);
  // Until the link has queued it.
  void settle(DeviceLink::State state, const Signature& what);
  // The host waits.
  void await(const Mark& mark, const Signature& what);
  // The host waits for the other ranks' signatures, and compares them.
  void compare(Handshake& handshake);

  void count(std::size_t sent, std::size_t received, CommTag tag);

  // ---- a sum, in tiles
  static std::int64_t staging_of(int world, const Options& options);  // bytes of both slots; 0: a sum needs none
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
  Allocation partial_;             // a first sum, where there are more ranks than a kernel takes; else empty
  Allocation stats_, stats_down_;  // of sums under way, on the device and on the host
  std::vector<bool> stats_taken_;
  std::array<Mark, 2> slot_free_;  // behind the last sum out of it
  std::size_t next_slot_ = 0;
  std::vector<Signature> sent_;  // which peers may still read, in turn
  std::size_t num_remembered_ = 0;
  std::uint64_t sequence_ = 0;
  std::map<int, std::uint64_t> num_sent_, num_received_;  // messages, by peer
  Mark last_;                                             // behind all that is queued
  Traffic traffic_;
  double waited_seconds_ = 0;
  std::unique_ptr<Failure> failure_;
  bool closed_ = false;
  std::function<bool()> work_meanwhile_;
  std::unique_ptr<DeviceLink> link_;  // ends before the memory that it reads
};

}  // namespace zero
