// CodedCommunicator: a communicator that sends units in fewer bytes than they have (zero/base/numbers/wire_codec.h).
//
//   CodedCommunicator coded(comm, {.gather = WireCodec::kInt8}, types, {.largest_numel = numel, .contributor = rank});
//   coded.begin_step(steps);                               // the numbering of roundings begins anew
//   coded.all_gather(shard, full, {.unit = 3}).wait();     // `full` has the decoded shards, also this rank's
//
// Only all_gather and reduce_scatter of units are coded, each with its own codec. Calls without a unit, control
// traffic, broadcasts, messages and all_to_alls are passed on unchanged. A world of one codes nothing. Blocks of the
// code begin with each shard. So results depend on the number of ranks, but not on the transport.
//
// Tiles pass through slots of staging. The asynchronous slot sends one collective before its wait(). If another
// collective begins meanwhile, or if there is no such slot, wait() sends the collective. All ranks must wait for works
// in the same order.
//
// The inner communicator must outlive this one. Construction is Collective: staging is memory of the inner
// communicator.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "zero/base/numbers/wire_codec.h"
#include "zero/comm/communicator.h"

namespace zero {

class CodedCommunicator final : public Communicator {
 public:
  struct Options {
    std::int64_t largest_numel = 0;  // elements of the largest block of any unit
    bool one_slot = false;           // true: bytes are sent only in wait()
    bool stochastic_gathers = false;
    int contributor = 0;  // number of this rank in the run, among all ranks that round
  };
  // `types`: element type of each unit.
  CodedCommunicator(Communicator& inner, const WireCodecs& codecs, std::vector<DType> types, const Options& options);

  // Returns the bytes of a rank's staging.
  static std::int64_t staging_bytes(int world, const WireCodecs& codecs, std::int64_t largest_numel, bool one_slot);

  // Local. Begins the numbering of a step's roundings. `number`: steps that are done.
  void begin_step(std::int64_t number);
  // Local. Makes gathers exact from now on, or coded again. Returns whether they were exact.
  bool set_exact_gathers(bool exact);
  // Local. Returns true if the last gather of `unit` was coded: its values then differ from those of the owners.
  bool gathered_coded(int unit) const { return gathered_coded_[static_cast<std::size_t>(unit)]; }
  // Coded bytes that this rank has sent so far: a part of traffic().sent_bytes.
  struct Sent {
    std::int64_t gathers = 0, sums = 0;
  };
  const Sent& coded_sent() const { return sent_; }

  int rank() const override { return inner_.rank(); }
  int world() const override { return inner_.world(); }
  std::string_view transport() const override { return inner_.transport(); }
  // Encodes this rank's shard, rounded to nearest, or stochastically with `stochastic_gathers`. All ranks decode the
  // same bytes, so they read the same values.
  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work broadcast(std::span<std::byte> data, int root, CommTag tag) override;
  Work send(std::span<const std::byte> data, int to, CommTag tag) override;
  Work receive(std::span<std::byte> data, int from, CommTag tag) override;
  Work barrier(CommTag tag) override { return inner_.barrier(tag); }
  // Encodes each rank's block once, rounded stochastically by a hash of (contributor, step, unit, number of the sum in
  // this step, element). Received blocks are decoded and added in rank order, in fp32. Statistics are those of the
  // final sum.
  Work reduce_scatter(const ReduceScatter& request, CommTag tag) override;
  Allocation allocate(std::size_t bytes, Written written) override { return inner_.allocate(bytes, written); }
  void drain() override { inner_.drain(); }
  void note_step(std::int64_t steps) override { inner_.note_step(steps); }
  GroupOpener* groups() override { return inner_.groups(); }
  Arrivals* arrivals() override { return inner_.arrivals(); }
  Mailbox* mailbox() override { return inner_.mailbox(); }
  Traffic traffic() const override { return inner_.traffic(); }
  double waited_seconds() const override { return inner_.waited_seconds(); }
  std::chrono::milliseconds timeout() const override { return inner_.timeout(); }

 private:
  class Exchange;
  class Gather;
  class Sum;
  // Memory of one collective in flight: the bytes that it sends, which peers read, and the bytes that it receives.
  struct Slot {
    Allocation memory;
    bool taken = false;
    bool read_by_peers = false;  // true until drain() has returned
  };

  bool codes(WireCodec codec, CommTag tag) const;
  std::uint64_t key_of(std::span<int> rounds, CommTag tag);
  Slot* free_slot(bool asynchronous);

  Communicator& inner_;
  const WireCodecs codecs_;
  const std::vector<DType> types_;
  const Options options_;
  const std::int64_t tile_numel_;
  bool exact_gathers_ = false;
  std::int64_t step_ = 0;
  std::vector<int> gathers_, sums_;  // numbers of collectives by unit, in this step
  std::vector<bool> gathered_coded_;
  Sent sent_;
  std::array<Slot, 2> slots_;  // first: for works that begin before their wait(); second: for the others
};

}  // namespace zero
