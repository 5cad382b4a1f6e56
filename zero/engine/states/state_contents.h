// StateContents: reads and writes the values of a rank's states, on any tier.
//
//   StateContents& contents = state.contents();
//   contents.load(u, whole, DType::kFloat32);                       // first values
//   for (int s = 0; s < contents.num_saved_states(u); ++s)          // the parameters, then the optimizer's states
//     if (contents.keeps(u, s)) contents.read_shard(u, s, visit);   // visit(first, elements) piece by piece
//
// It writes the first values of a model and a user's writes into a gathered unit. Checkpoints and comparisons of ranks
// also read and write through it. For use between steps, while nothing is updated or gathered. Local. Throws IoError.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "zero/engine/states/state_streams.h"
#include "zero/plan/units/partition.h"

namespace zero {

class ShardedState;

// Selects states of a unit: all, those that copies share (StateSpec::shared()), or a copy's own, which include the
// parameters.
enum class HeldStates : std::uint8_t { kAll, kShared, kOwn };

class StateContents {
 public:
  StateContents(const ShardedState& state, StateStreams& streams) : state_(state), streams_(streams) {}

  // Keeps this rank's part of whole parameters in `dtype` (the unit's own, or fp32: then the master is exact). `whole`
  // has unit.numel elements in the order of parameters; gaps in it must be zero.
  void load(int unit, const std::byte* whole, DType dtype);
  // Updates parameter and master from a gathered range, in the unit's own dtype, after a user wrote into it.
  void store(int unit, const std::byte* whole);
  // Reads this rank's shard in full precision: the master, if there is one.
  void read_full_precision_shard(int unit, std::span<float> out);

  // Returns the number of a unit's states in a checkpoint. State 0 is the parameters in full precision; the optimizer's
  // states follow. States in 8 bits are saved as fp32, and are read back code for code. A rule that updates whole
  // matrices has states for matrices and states for other parameters, so a unit keeps only some of them.
  int num_saved_states(int unit) const;
  bool keeps(int unit, int state) const;
  DType saved_dtype(int unit, int state) const;
  // Calls visit(first, elements) for each piece of this rank's shard; `first` counts in the unit's flat range.
  using ReadVisit = std::function<void(std::int64_t first, std::span<const std::byte> elements)>;
  void read_shard(int unit, int state, const ReadVisit& visit);
  // Calls fill(first, elements) for each piece of a state on this rank, and for some elements perhaps twice. At low
  // stages these are more than its shard. `fill` must set elements beyond the unit to zero. Afterwards every element is
  // on its tier.
  using WriteFill = std::function<void(std::int64_t first, std::span<float> elements)>;
  void write_held(int unit, int state, const WriteFill& fill);
  // Returns the part of the unit's padded range that write_held() asks for.
  Shard held(int unit, int state) const;

  // Calls visit(elements) for each piece of a unit that every rank holds alike. These are the parameters, then master
  // and optimizer states, each if they are whole, without padding. States of rows and columns follow. Never calls it if
  // everything is sharded.
  using ReplicaVisit = std::function<void(std::span<const std::byte> elements)>;
  void read_replicated(int unit, const ReplicaVisit& visit, HeldStates which = HeldStates::kAll);
  // Calls visit(elements) for this rank's shard of all sharded states.
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
