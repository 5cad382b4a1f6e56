#include "app/cli/bench/parts/unit_collectives.h"

#include "zero/base/error/check.h"
#include "zero/comm/device/device_communicator.h"
#include "zero/comm/transport/open_device_link.h"
#include "zero/engine/wire/staged_communicator.h"

namespace zero::cli {
namespace {

// Makes the communicator between devices as engine_parts.cpp does.
std::unique_ptr<Communicator> between(Device& device, Communicator& units, Ledger& ledger, bool units_apart,
                                      bool linked) {
  if (linked) return std::make_unique<DeviceCommunicator>(units, device, open_device_link(units, device));
  if (device.host_readable()) return nullptr;
  return std::make_unique<StagedCommunicator>(units, device, ledger, units_apart ? Begin::kWhenDown : Begin::kAtOnce);
}

}  // namespace

UnitCollectives::UnitCollectives(Communicator& comm, Device& device, std::int64_t bytes, bool linked)
    : device_(device),
      comms_(comm, /*group=*/0, /*units_apart=*/!device.host_readable()),
      way_(linked                   ? "nccl"
           : device.host_readable() ? "in place"
                                    : "through the host"),
      between_devices_(between(device, comms_.units, ledger_, comms_.units_apart(), linked)),
      units_(between_devices_ != nullptr ? *between_devices_ : comms_.units),
      whole_(units_.allocate(static_cast<std::size_t>(bytes))),
      shard_(units_.allocate(static_cast<std::size_t>(bytes / comm.world()))),
      whole_down_(device.allocate_pinned(static_cast<std::size_t>(bytes))),
      up_(device.allocate_pinned(static_cast<std::size_t>(bytes))) {
  ZERO_CHECK(bytes % (64 * comm.world()) == 0, "{} bytes for {} ranks", bytes, comm.world());
}

UnitCollectives::~UnitCollectives() {
  join_all(device_);
}

void UnitCollectives::gather() {
  follow(device_, Lane::kUp, Lane::kCompute);  // waits for operators that used the whole unit
  units_.all_gather(shard(), whole(), {.unit = 0}).wait();
  follow(device_, Lane::kCompute, Lane::kUp);
  device_.join(device_.mark(Lane::kCompute));
  units_.drain();
}

void UnitCollectives::sum() {
  follow(device_, Lane::kReduce, Lane::kCompute);
  follow(device_, Lane::kUp, Lane::kCompute);
  units_.reduce_scatter({.in = whole(), .out = shard()}, {.unit = 0}).wait();
  follow(device_, Lane::kCompute, Lane::kUp);
  device_.join(device_.mark(Lane::kCompute));
  units_.drain();
}

void UnitCollectives::come_and_go(std::span<std::byte> down, std::span<std::byte> up) {
  device_.copy(Lane::kDown, whole_down_.bytes().first(down.size()), down);
  follow(device_, Lane::kUp, Lane::kDown);
  device_.copy(Lane::kUp, up, up_.bytes().first(up.size()));
  follow(device_, Lane::kCompute, Lane::kUp);
  device_.join(device_.mark(Lane::kCompute));
}

void UnitCollectives::gather_copies() {
  come_and_go(shard(), whole());
}

void UnitCollectives::sum_copies() {
  come_and_go(whole(), shard());
}

}  // namespace zero::cli
