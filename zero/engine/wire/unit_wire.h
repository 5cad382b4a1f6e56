// Unit wire: the communicators that send an engine's units with a codec, within a copy of the model and between copies.
//
//   auto coded = open_unit_wire(comms, units, options.wire, budget.is_min());     // null: no codec
//   auto between = open_copies_wire(comms, units, placement);
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "zero/comm/code/coded_communicator.h"
#include "zero/engine/wire/engine_comms.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

// Collective over the ranks that hold one copy of the model. Null: no codec. `min_budget`: staging for one collective
// at a time.
std::unique_ptr<CodedCommunicator> open_unit_wire(const EngineComms& comms, const std::vector<Unit>& units,
                                                  const WireCodecs& wire, bool min_budget);

// Local. Returns the bytes of its staging on a rank, for `shard` ranks that hold one copy of the model.
std::int64_t unit_wire_bytes(const std::vector<Unit>& units, int shard, const WireCodecs& wire, bool min_budget);

// Collective over the ranks that hold the same shard. Null if copies add their gradients without a codec, or train
// apart.
std::unique_ptr<CodedCommunicator> open_copies_wire(const EngineComms& comms, const std::vector<Unit>& units,
                                                    const Placement& placement);

// Local. Returns the bytes of its staging on a rank.
std::int64_t copies_wire_bytes(const std::vector<Unit>& units, int shard, const Placement& placement);

// Makes gathers exact while it lives: an operator outside training reads the owners' values. Null: no codec.
class ExactGathers {
 public:
  explicit ExactGathers(CodedCommunicator* coded)
      : coded_(coded), before_(coded != nullptr && coded->set_exact_gathers(true)) {}
  ~ExactGathers() {
    if (coded_ != nullptr) coded_->set_exact_gathers(before_);
  }
  ExactGathers(const ExactGathers&) = delete;
  ExactGathers& operator=(const ExactGathers&) = delete;

 private:
  CodedCommunicator* coded_;
  bool before_;
};

}  // namespace zero
