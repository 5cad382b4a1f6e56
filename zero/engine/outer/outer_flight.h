// OuterFlight: the sum over the copies of what a fragment has come to, exchanged while the copies go on computing
// (zero/engine/options/outer_fragments.h). OuterSum is the same for one unit, at once.
//
//   OuterFlight flight(state, comms, {.units = units_of_fragment(...), .overlap = 4, .step = step}, ledger, timeline);
//   for (const int u : flight.units()) {
//     flight.begin(u);                                  // zeros
//     ... flight.elements()[i] = anchor - weight ...    // of this rank's update range
//     flight.pack(u);
//   }
//   flight.send();                                      // begins; the copies take a step
//   flight.go_on();                                     // after each of `overlap` steps
//   flight.arrive();                                    // waits for what is left
//   for (const int u : flight.units()) ... flight.sums(u)[i] ...
//
// Each copy sums a block of each shard, in the order of the copies, in fp32: one message to every other copy for the whole
// fragment, and one with the sums. With a codec (WireCodecs::outer) both are coded, each rounded once. With top-k each copy
// sends its largest elements to all others. Bytes are those of OuterSum.
//
// They cross a part at a time, one after each step: what every step exchanges of its own goes the same way, and would have
// to wait behind a whole message. Differences take the first half of the steps, and sums the second.
//
// Memory is staging, in the ledger from construction to destruction: twice the fragment's shard in fp32, or with a codec or
// top-k once and the messages; one unit's bytes; and where states are whole, the largest unit. Collective, all of it, but for
// begin(), elements(), take_largest() and pack().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/base/process/timeline.h"
#include "zero/comm/work.h"
#include "zero/engine/outer/flight_chunks.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/engine/wire/engine_comms.h"
#include "zero/memory/account/charge.h"

namespace zero {

class OuterFlight {
 public:
  // `overlap`: steps until it is to arrive, one or more. `step`: number of the run's step; a codec's rounding depends on it.
  struct Trip {
    std::vector<int> units{};
    int overlap = 1;
    std::int64_t step = 0;
  };
  // There is more than one copy. All outlive it.
  OuterFlight(const ShardedState& state, const EngineComms& comms, Trip trip, Ledger& ledger, Timeline* timeline);

  const std::vector<int>& units() const { return trip_.units; }

  void begin(int unit);
  float* elements();
  // With top-k: elements() are then what this copy does not send.
  void take_largest();
  void pack(int unit);

  void send();
  void go_on();
  void arrive();
  // Of the update range; until the next call.
  const float* sums(int unit);

  // Bytes that the flight of the fragment that needs most takes.
  static std::int64_t bytes(const std::vector<Unit>& units, int shard, const Placement& placement);

 private:
  struct Part {
    int unit = 0;
    std::int64_t block = 0;    // elements that a copy sums
    std::int64_t values = 0;   // where the unit's elements begin among those of the fragment
    std::int64_t message = 0;  // where its bytes begin in a message
    std::int64_t bytes = 0;    // of them
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
  Trip trip_;
  Timeline* timeline_;
  Sizes sizes_;
  FlightChunks out_, back_;
  Allocation values_;               // differences; at the end, but for those that cross as they are, the sums
  Allocation sent_, came_;          // a message for each copy; as they are, they come in place of the differences
  std::vector<std::byte> scratch_;  // of one unit's part in a message
  Allocation whole_;  // of the largest unit's padded range, where that is updated and several ranks hold a copy
  const Part* open_ = nullptr;  // the unit whose elements() are written
  Charge charge_;
  Work work_;
  enum class Phase : std::uint8_t { kPacking, kOut, kBack, kHere };
  Phase phase_ = Phase::kPacking;
  int chunk_ = 0;  // that is on its way
};

}  // namespace zero
