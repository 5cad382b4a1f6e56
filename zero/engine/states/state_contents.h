// StateContents: the values of a rank's states, read and written wherever they lie: what a model begins with, what a
// user writes into a gathered unit, and what checkpoints and comparisons of ranks need.
//
//   StateContents& contents = state.contents();
//   contents.load(u, whole, DType::kFloat32);                       // first values
//   for (int s = 0; s < contents.num_saved_states(u); ++s)          // the parameters, then the optimizer's states
//     if (contents.keeps(u, s)) contents.read_shard(u, s, [&](std::int64_t first, std::span<const std::byte> elements) { ... });
//
// Between steps, and while nothing is updated or gathered. Local. Throws IoError.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "zero/engine/states/state_streams.h"
#include "zero/plan/units/partition.h"

namespace zero {

class ShardedState;

// Which of a unit's states: all, those that copies share (StateSpec::shared()), or a copy's own, the parameters among them.
enum class HeldStates : std::uint8_t { kAll, kShared, kOwn };

class StateContents {
 public:
  StateContents(const ShardedState& state, StateStreams& streams) : state_(state), streams_(streams) {}

  // Takes this rank's part from whole parameters given in `dtype` (the unit's own, or fp32: then the master is exact).
  // `whole` has unit.numel elements, in the order of parameters; gaps in it must be zero.
  void load(int unit, const std::byte* whole, DType dtype);
  // The same from the gathered range of the unit's own dtype after somebody wrote into it: parameter and master follow.
  void store(int unit, const std::byte* whole);
  // This rank's shard in full precision: the master where there is one.
  void read_full_precision_shard(int unit, std::span<float> out);

  // What a checkpoint has of a unit. State 0: the parameters in full precision; then the optimizer's states, those that
  // are kept in 8 bits as fp32: what is read and written again is the same, code for code.
  // A rule that updates matrices as wholes has states of those, and states of others: a unit keeps some of them.
  int num_saved_states(int unit) const;
  bool keeps(int unit, int state) const;
  DType saved_dtype(int unit, int state) const;
  // Calls visit(first, elements) for all of this rank's shard, piece by piece; `first` counts in the unit's flat range.
  using ReadVisit = std::function<void(std::int64_t first, std::span<const std::byte> elements)>;
  void read_shard(int unit, int state, const ReadVisit& visit);
  // Calls fill(first, elements) for all that this rank holds of a state (at low stages that is more than its shard),
  // some of it perhaps twice; elements beyond the unit must be filled with zeros. Ends with everything where it lies.
  using WriteFill = std::function<void(std::int64_t first, std::span<float> elements)>;
  void write_held(int unit, int state, const WriteFill& fill);
  // What it asks for, of the unit's padded range.
  Shard held(int unit, int state) const;

  // Calls visit(elements) for all of a unit that every rank holds alike, piece by piece: the parameters where they are
  // whole, then master and the optimizer's states where those are; no padding; then states of rows and columns. Never called
  // where everything is sharded.
  using ReplicaVisit = std::function<void(std::span<const std::byte> elements)>;
  void read_replicated(int unit, const ReplicaVisit& visit, HeldStates which = HeldStates::kAll);
  // The same of everything else: of this rank's shard of what is sharded.
  void read_sharded(int unit, const ReplicaVisit& visit, HeldStates which = HeldStates::kAll);

 private:
  const StateArrays& arrays() const;
  void read_held(int unit, bool sharded, std::int64_t numel, const ReplicaVisit& visit, HeldStates which);
  void read_coded_shard(int unit, const StateArrays::Optimizer& state, const ReadVisit& visit);
  void write_coded(int unit, const StateArrays::Optimizer& state, const WriteFill& fill);
  const StateArrays::Optimizer& optimizer(int state) const;  // of a saved state > 0

  const ShardedState& state_;
  StateStreams& streams_;
};

}  // namespace zero
