// OuterExchange: exchanges the sum over the copies of a fragment's differences while the copies continue to train.
//
//   OuterExchange exchange(state, comms, {.units = units_of_fragment(...), .overlap = 4}, ledger, timeline);
//   exchange.begin(u);                                 // zeros; for each of exchange.units()
//   ... exchange.elements()[i] = anchor - weight ...   // of this rank's update range
//   exchange.pack(u);
//   exchange.send();                                   // begins; the copies take a step
//   exchange.go_on();                                  // after each of `overlap` steps
//   exchange.arrive();                                 // waits for the rest; then read exchange.sums(u)
//
// See zero/engine/options/outer_fragments.h. OuterSum does the same for one unit, at once, with the same bytes. A chunk
// is exchanged after each step, because a whole message would delay the step's own exchanges. The copies exchange
// differences in the first half of the `overlap` steps, and sums in the second half. Collective, except begin(),
// elements(), take_largest() and pack().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/base/process/timeline.h"
#include "zero/comm/work.h"
#include "zero/engine/outer/outer_memory.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/engine/wire/engine_comms.h"
#include "zero/memory/account/charge.h"

namespace zero {

class OuterExchange {
 public:
  // `overlap`: steps until arrive(), 1 or more. `step`: the run's step, on which a codec's rounding depends.
  struct Plan {
    std::vector<int> units{};
    int overlap = 1;
    std::int64_t step = 0;
  };
  // Each copy sums a block of each shard, in the order of the copies, in fp32. It sends one message to every other copy
  // for the whole fragment, and one with the sums. With a codec (WireCodecs::outer) both are coded, each rounded once.
  // With top-k each copy sends its largest elements to all others. Memory is staging in the ledger while the object
  // lives. It holds twice the fragment's shard in fp32, or with a codec or top-k once the shard and the messages. It
  // also holds one unit's bytes, and the largest unit if states are whole. There must be more than one copy. All must
  // outlive the object.
  OuterExchange(const ShardedState& state, const EngineComms& comms, Plan plan, Ledger& ledger, Timeline* timeline);

  const std::vector<int>& units() const { return plan_.units; }

  void begin(int unit);
  float* elements();
  // With top-k: leaves in elements() the differences that this copy does not send.
  void take_largest();
  void pack(int unit);

  void send();
  void go_on();
  void arrive();
  // Returns the sums of the update range; valid until the next call.
  const float* sums(int unit);

  // Returns the bytes of the exchange of the largest fragment.
  static std::int64_t bytes(const std::vector<Unit>& units, int shard, const Placement& placement);

 private:
  struct Part {
    int unit = 0;
    std::int64_t block = 0;    // elements that a copy sums
    std::int64_t values = 0;   // first of the unit's elements among the fragment's
    std::int64_t message = 0;  // first of its bytes in a message
    std::int64_t bytes = 0;    // of the message
  };
  struct Sizes {
    std::int64_t values = 0, message = 0, whole = 0;  // elements, bytes of one message, elements
    std::int64_t largest_part = 0;                    // bytes
    std::vector<Part> parts{};
    std::int64_t bytes(const Mesh& mesh, const Placement& placement) const;
  };
  static Sizes sizes_of(const std::vector<Unit>& units, std::span<const int> fragment, const Mesh& mesh,
                        const Placement& placement);
  const Part& part(int unit) const;
  WireCodec codec() const { return state_.placement().wire.outer; }
  double share() const { return state_.placement().wire.outer_topk; }
  bool as_they_are() const { return codec() == WireCodec::kNone && share() == 0; }
  int copies() const { return comms_.mesh.copies; }
  std::uint64_t key(const Part& part, std::uint64_t kind) const;
  std::byte* arrived() { return (as_they_are() ? values_ : came_).data(); }
  static constexpr std::uint64_t kGatherKey = 1, kSumKey = 2;
  std::span<std::byte> scratch(const Part& part) {
    return std::span(scratch_).first(static_cast<std::size_t>(part.bytes));
  }
  void begin_chunk();
  void sum_block(const Part& part);

  const ShardedState& state_;
  const EngineComms& comms_;
  Plan plan_;
  Timeline* timeline_;
  Sizes sizes_;
  ExchangeChunks out_, back_;
  Allocation values_;               // differences; at the end the sums, unless as_they_are()
  Allocation sent_, came_;          // a message for each copy; if as_they_are(), received into values_
  std::vector<std::byte> scratch_;  // one unit's part of a message
  Allocation whole_;                // largest unit's padded range, if that is updated and several ranks hold a copy
  const Part* open_ = nullptr;      // the unit whose elements() are written
  Charge charge_;
  Work work_;
  enum class Phase : std::uint8_t { kPacking, kOut, kBack, kHere };
  Phase phase_ = Phase::kPacking;
  int chunk_ = 0;  // being exchanged
};

}  // namespace zero
