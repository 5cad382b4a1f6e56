// Unit wire: the communicators over which an engine's units are gathered and their gradients summed, where their bytes are
// coded: within a copy of the model, and between copies.
//
//   auto coded = open_unit_wire(comms, units, options.wire, budget.is_min());     // null where nothing is coded
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

// Collective over the ranks that hold the model once. `min_budget`: one collective at a time has staging.
std::unique_ptr<CodedCommunicator> open_unit_wire(const EngineComms& comms, const std::vector<Unit>& units,
                                                  const WireCodecs& wire, bool min_budget);

// Local. Bytes of its staging on a rank, of `shard` ranks that hold the model once.
std::int64_t unit_wire_bytes(const std::vector<Unit>& units, int shard, const WireCodecs& wire, bool min_budget);

// Collective over the ranks that hold the same shard. Null where copies add their gradients as they are, or train apart.
std::unique_ptr<CodedCommunicator> open_copies_wire(const EngineComms& comms, const std::vector<Unit>& units,
                                                    const Placement& placement);

// Local. Bytes of its staging on a rank.
std::int64_t copies_wire_bytes(const std::vector<Unit>& units, int shard, const Placement& placement);

// Within it gathers are exact: an operator outside training reads what the owners hold. Null: nothing is coded.
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
