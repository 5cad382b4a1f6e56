// UnitComms: the communicators that move an engine's units, and sum their gradients.
//
//   UnitComms unit_comms(comms, units, options, *rule, placer.placement(), budget, ledger, device, host);
//   Gatherer gatherer(state, unit_comms.of_units(), ...);
//
// EngineComms says which ranks exchange, and UnitComms how the bytes move between them. They move as they are, in
// codes, or from device to device. If the host cannot read the device, they may move through pinned memory of the host.
// Staging is in the ledger. Construction is Collective; everything else Local. `comms`, `ledger` and `device` must
// outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "zero/comm/device/device_communicator.h"
#include "zero/engine/options/engine_host.h"
#include "zero/engine/options/options.h"
#include "zero/engine/reduce/gradient_sum.h"
#include "zero/engine/wire/engine_comms.h"
#include "zero/engine/wire/staged_communicator.h"
#include "zero/engine/wire/unit_wire.h"
#include "zero/memory/account/charge.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

class UnitComms {
 public:
  UnitComms(const EngineComms& comms, const std::vector<Unit>& units, const AttachOptions& options,
            const UpdateRule& rule, const Placement& placement, const GatherBudget& budget, Ledger& ledger,
            Device& device, const EngineHost& host);
  UnitComms(const UnitComms&) = delete;
  UnitComms& operator=(const UnitComms&) = delete;

  // The ranks that hold one copy of the model, for gathers of units and sums of their gradients.
  Communicator& of_units() { return on_device(host_units()); }
  // The same ranks without a codec, for the states' memory.
  Communicator& of_states() { return on_device(comms_.copy); }
  // The secondary group, for gathers of secondary parts. Null: no secondary parts are kept.
  Communicator* of_parts();
  // The ranks that hold one copy of the model, for directions of matrices on the device.
  Communicator& of_directions();
  // Returns how sums of gradients continue over the copies of the model.
  GradientSum::Copies over_copies() const;
  CodedCommunicator* coded() const { return coded_.get(); }  // null: units are sent without a codec

  // Sets work for the host while it waits for the device. No work: empty.
  void while_waiting(const std::function<bool()>& work);
  // Ends the links between devices. Call it before the device is waited for: else a lane may wait for a rank that never
  // answers.
  void close();
  // A code depends on the step in which a collective begins.
  void begin_step(std::int64_t number);

  // Return the bytes so far, and the seconds that this rank has spent waiting for other ranks.
  Traffic traffic() const;
  double waited_seconds() const;

 private:
  Communicator& host_units() { return coded_ != nullptr ? *coded_ : comms_.units; }
  Communicator& on_device(Communicator& of_host) {
    if (linked_ != nullptr) return *linked_;
    return staged_ != nullptr ? *staged_ : of_host;
  }
  Begin begin() const {
    return comms_.units_apart() && coded_ == nullptr && copies_ == nullptr ? Begin::kWhenDown : Begin::kAtOnce;
  }
  GradientSum::Copies of_copies() const;

  const EngineComms& comms_;
  const bool keeps_parts_;
  const bool trains_apart_;                          // no gradients are summed over copies
  const std::unique_ptr<CodedCommunicator> coded_;   // null: units are sent without a codec
  const std::unique_ptr<CodedCommunicator> copies_;  // communicator between copies; null: no codec
  const Charge coded_staging_;
  const std::unique_ptr<DeviceCommunicator> linked_;  // null: bytes of the device are sent through the host
  const Charge linked_staging_;
  std::unique_ptr<StagedCommunicator> staged_;        // null: the host can read the device, or devices are linked
  std::unique_ptr<StagedCommunicator> staged_parts_;  // same for secondary parts; null: none are kept
  // Same for directions of matrices; null: none are gathered on the device.
  std::unique_ptr<StagedCommunicator> staged_directions_;
  // Sums over copies of gradients that were copied to the host; null if there are no copies, or no device.
  std::unique_ptr<GradientSum> host_sums_;
};

}  // namespace zero
