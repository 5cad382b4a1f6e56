#include "zero/engine/unit_comms.h"

#include <algorithm>

#include "zero/engine/wire/gradient_staging.h"
#include "zero/plan/units/estimate.h"

namespace zero {
namespace {

// Returns null if bytes are sent through the host. A single rank needs no link, unless its sums continue on the host.
std::unique_ptr<DeviceCommunicator> link_devices(Communicator& units, Device& device, bool on_host,
                                                 const DeviceCommunicator::Options& options, const EngineHost& host) {
  if (device.host_readable()) return nullptr;
  if (host.open_link)
    return std::make_unique<DeviceCommunicator>(units, device, host.open_link(units, device), options);
  return units.world() == 1 && !on_host ? std::make_unique<DeviceCommunicator>(units, device, nullptr) : nullptr;
}

}  // namespace

UnitComms::UnitComms(const EngineComms& comms, const std::vector<Unit>& units, const AttachOptions& options,
                     const UpdateRule& rule, const Placement& placement, const GatherBudget& budget, Ledger& ledger,
                     Device& device, const EngineHost& host)
    : comms_(comms),
      keeps_parts_(budget.keeps_parts),
      trains_apart_(options.local.has_value()),
      coded_(open_unit_wire(comms, units, placement.wire, budget.is_min())),
      copies_(open_copies_wire(comms, units, placement)),
      coded_staging_(ledger, Tier::kDevice, MemoryTag::kStaging,
                     unit_wire_bytes(units, comms.mesh.shard, placement.wire, budget.is_min()) +
                         copies_wire_bytes(units, comms.mesh.shard, placement)),
      linked_(link_devices(comms.units, device, coded_ != nullptr || placement.copies > 1,
                           linked_options(units, comms.mesh.shard, placement, budget.is_min()), host)),
      linked_staging_(ledger, Tier::kDevice, MemoryTag::kStaging, linked_ != nullptr ? linked_->held_bytes() : 0) {
  if (device.host_readable() || linked_ != nullptr) return;
  staged_ = std::make_unique<StagedCommunicator>(host_units(), device, ledger, begin());
  if (comms.secondary != nullptr && keeps_parts_)
    staged_parts_ = std::make_unique<StagedCommunicator>(*comms.secondary, device, ledger, Begin::kWhenDown);
  // Directions are exchanged at once, and never with a codec, unlike units.
  const auto gathers = [&](const Unit& unit) { return gathers_directions(unit, comms.mesh.shard, placement); };
  if (rule.matrices() != nullptr && !host_updates(device, options) && std::ranges::any_of(units, gathers))
    staged_directions_ = std::make_unique<StagedCommunicator>(comms.copy, device, ledger);
  if (placement.copies == 1) return;
  const auto blocks = GradientSum::blocks_of(units, comms.mesh.shard, placement, budget.is_min());
  host_sums_ = std::make_unique<GradientSum>(host_units(), of_copies(), blocks, ledger, Tier::kHost);
  staged_->sum_by([this](const ReduceScatter& request, CommTag tag) { return host_sums_->begin(request, tag); });
}

Communicator* UnitComms::of_parts() {
  if (staged_parts_ != nullptr) return staged_parts_.get();
  return keeps_parts_ ? comms_.secondary : nullptr;
}

Communicator& UnitComms::of_directions() {
  if (linked_ != nullptr) return *linked_;
  return staged_directions_ != nullptr ? *staged_directions_ : comms_.copy;
}

GradientSum::Copies UnitComms::over_copies() const {
  if (host_sums_ != nullptr) return {.most_begun = host_sums_->most_begun()};
  return of_copies();
}

// If copies train apart, no gradients are summed over them.
GradientSum::Copies UnitComms::of_copies() const {
  if (trains_apart_) return {};
  if (copies_ != nullptr) return {.across = copies_.get(), .coded = true};
  return {.across = comms_.across};
}

void UnitComms::while_waiting(const std::function<bool()>& work) {
  if (linked_ != nullptr) linked_->while_waiting(work);
  if (staged_ != nullptr) staged_->while_waiting(work);
  if (staged_parts_ != nullptr) staged_parts_->while_waiting(work);
}

void UnitComms::close() {
  while_waiting({});
  if (linked_ != nullptr) linked_->close();
}

void UnitComms::begin_step(std::int64_t number) {
  for (CodedCommunicator* coded : {coded_.get(), copies_.get()})
    if (coded != nullptr) coded->begin_step(number);
}

Traffic UnitComms::traffic() const {
  Traffic all = comms_.traffic();
  if (linked_ == nullptr) return all;
  const Traffic between_devices = linked_->traffic();
  all.sent_bytes += between_devices.sent_bytes;
  all.received_bytes += between_devices.received_bytes;
  return all;
}

double UnitComms::waited_seconds() const {
  return comms_.waited_seconds() + (linked_ != nullptr ? linked_->waited_seconds() : 0);
}

}  // namespace zero
