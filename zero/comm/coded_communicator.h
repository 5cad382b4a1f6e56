// CodedCommunicator: a communicator whose units cross in fewer bytes than they have (zero/base/wire_codec.h).
//
//   CodedCommunicator coded(comm, {.gather = WireCodec::kInt8}, types_of(units), {.tile_numel = ..., .contributor = rank});
//   coded.begin_step(steps);                               // the numbers of a step's rounding begin anew
//   coded.all_gather(shard, full, {.unit = 3}).wait();     // `full` is what every rank's shard decodes to, its own, too
//
// - all_gather and reduce_scatter of units are coded, each by its codec. All else crosses as it is: what is of no unit or
//   control, broadcasts, messages, all_to_alls. In a world of one nothing crosses, and nothing is coded.
// - A gather encodes this rank's shard, to the nearest step, or, with `stochastic_gathers`, as a sum does. All ranks decode
//   the same bytes, so that they read the same values.
// - A sum encodes each rank's block, once and stochastically, by a hash of (contributor, step, unit, how often in this step,
//   element); what arrives is decoded and added in rank order, in fp32. Statistics are those of the final sum.
// - So bits depend on where blocks begin, that is on the number of ranks, and on no transport.
// - Bytes go in tiles through slots of staging. One collective at a time is under way in an asynchronous slot; one that
//   begins meanwhile begins to cross in its wait(). Works are waited for in an order that is the same on every rank.
//
// A Communicator in every respect; the inner one outlives it. Construction is Collective: staging is memory of the inner one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "zero/base/wire_codec.h"
#include "zero/comm/communicator.h"

namespace zero {

class CodedCommunicator final : public Communicator {
 public:
  struct Options {
    std::int64_t largest_numel = 0;  // of a block of any unit
    bool one_slot = false;           // nothing crosses but in wait()
    bool stochastic_gathers = false;
    int contributor = 0;  // of this rank among all that round; its number in the run
  };
  // `types`: of the elements of each unit.
  CodedCommunicator(Communicator& inner, const WireCodecs& codecs, std::vector<DType> types, const Options& options);

  // Bytes of staging of a rank.
  static std::int64_t staging_bytes(int world, const WireCodecs& codecs, std::int64_t largest_numel, bool one_slot);

  // Local. `number`: of steps that are done.
  void begin_step(std::int64_t number);
  // Local. Gathers are exact from now on, or coded again. Returns whether they were exact.
  bool set_exact_gathers(bool exact);
  // Local. The last gather of `unit` was coded: what it left is not what its owners hold.
  bool gathered_coded(int unit) const { return gathered_coded_[static_cast<std::size_t>(unit)]; }
  // Local. Of the bytes that this rank has sent so far, those that were coded: a part of traffic().sent_bytes.
  struct Sent {
    std::int64_t gathers = 0, sums = 0;
  };
  const Sent& coded_sent() const { return sent_; }

  int rank() const override { return inner_.rank(); }
  int world() const override { return inner_.world(); }
  std::string_view transport() const override { return inner_.transport(); }
  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work broadcast(std::span<std::byte> data, int root, CommTag tag) override;
  Work send(std::span<const std::byte> data, int to, CommTag tag) override;
  Work receive(std::span<std::byte> data, int from, CommTag tag) override;
  Work barrier(CommTag tag) override { return inner_.barrier(tag); }
  Work reduce_scatter(const ReduceScatter& request, CommTag tag) override;
  Allocation allocate(std::size_t bytes, Written written) override { return inner_.allocate(bytes, written); }
  void drain() override { inner_.drain(); }
  void note_step(std::int64_t steps) override { inner_.note_step(steps); }
  GroupOpener* groups() override { return inner_.groups(); }
  Arrivals* arrivals() override { return inner_.arrivals(); }
  Traffic traffic() const override { return inner_.traffic(); }
  double waited_seconds() const override { return inner_.waited_seconds(); }
  std::chrono::milliseconds timeout() const override { return inner_.timeout(); }

 private:
  class Exchange;
  class Gather;
  class Sum;
  // Memory of one collective under way: what it sends, which peers read, and what it receives.
  struct Slot {
    Allocation memory;
    bool taken = false;
    bool read_by_peers = false;  // until drain() has returned
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
  std::vector<int> gathers_, sums_;  // by unit, in this step
  std::vector<bool> gathered_coded_;
  Sent sent_;
  std::array<Slot, 2> slots_;  // for works that begin before their wait(); for the others
};

}  // namespace zero
