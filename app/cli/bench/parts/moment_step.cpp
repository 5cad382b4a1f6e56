#include "app/cli/bench/parts/moment_step.h"

#include <algorithm>
#include <array>
#include <random>

#include "zero/base/files/random_bytes.h"
#include "zero/comm/board/in_process.h"
#include "zero/engine/wire/staged_communicator.h"
#include "zero/memory/link/lane_link.h"

namespace zero::cli {

MomentStep::MomentStep(const MomentStepOptions& options, Tier moments, Device* device)
    : device_(device == nullptr ? HostDevice::instance() : *device),
      comm_(std::move(make_in_process(1, std::chrono::seconds(60)).front())),
      staged_(std::make_unique<StagedCommunicator>(*comm_, device_, ledger_)),
      specs_{{.name = "matrix", .shape = {options.mib << 8, 1024}}},
      units_(make_units(specs_, {})),
      rule_(make_update_rule(AdamWOptions{})) {
  Placement placement = place(3, Reduce::kAuto, 1);
  if (moments == Tier::kHost) spread_over_tiers(placement, units_, 1, {.optimizer = {.host = 1}});
  if (moments == Tier::kDisk) {
    spread_over_tiers(placement, units_, 1, {.optimizer = {.disk = 1}});
    disk_ = std::make_unique<DiskTier>(DiskOptions{.paths = options.folders, .bytes = options.mib << 21});
  }
  if (device != nullptr)  // as in engine_parts.cpp
    link_ = std::make_unique<LaneLink>(device_,
                                       LaneLink::Earlier{.up = {Lane::kUpdate}, .down = {Lane::kUp, Lane::kUpdate}});
  Communicator& comm = device_.host_readable() ? *comm_ : *staged_;
  state_ = std::make_unique<ShardedState>(
      units_, placement, rule_->states(), comm, ledger_,
      OffloadTiers{.disk = disk_.get(), .link = link_.get(), .device = &device_, .depth = options.depth});
  updater_ = std::make_unique<Updater>(*state_, *rule_, specs_, AttachOptions{.threads = options.threads}, *comm_,
                                       ledger_, *comm_);
  fill_gradient();
}

MomentStep::~MomentStep() = default;

void MomentStep::run() {
  constexpr std::array<int, 1> kUnits{0};
  updater_->begin_step({true}, kUnits, 1, {.lr = 1e-3});
  updater_->enqueue(0, state_->gradient_shard(0), DType::kFloat32);
  updater_->finish();
  join_all(device_);
}

// A gradient of zeros would give moments of zeros, which some disks write faster.
void MomentStep::fill_gradient() {
  std::mt19937_64 draw(random_number());
  std::uniform_real_distribution<float> value(-1, 1);
  constexpr std::size_t kSome = std::size_t{1} << 18;
  const Allocation block = device_.allocate_pinned(kSome * sizeof(float));
  const std::span some(reinterpret_cast<float*>(block.data()), kSome);
  for (float& each : some) each = value(draw);
  const auto bytes = static_cast<std::size_t>(state_->shard(0).numel) * sizeof(float);
  for (std::size_t at = 0; at < bytes; at += block.size()) {
    const std::size_t size = std::min(block.size(), bytes - at);
    device_.copy(Lane::kUp, {state_->gradient_shard(0) + at, size}, block.bytes().first(size));
  }
  device_.join(device_.mark(Lane::kUp));
}

}  // namespace zero::cli
