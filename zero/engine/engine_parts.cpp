#include "zero/engine/engine_parts.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/text/bytes.h"
#include "zero/comm/collectives.h"
#include "zero/engine/options/leaf_options.h"
#include "zero/engine/options/option_numbers.h"
#include "zero/engine/options/same_options.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/memory/link/lane_link.h"
#include "zero/memory/link/paced_link.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/weighted_cut.h"

namespace zero {
namespace {

// Refuses an option. With equal shards every rank does so by itself, because all have the same shards. With weighted
// shards, if any rank refuses, all do.
template <typename Body>
void refuse_together(const EngineComms& comms, const AttachOptions& options, Body body) {
  options.shards == Cut::kWeighted ? refuse_alike(comms.run, body) : body();
}

GatherBudget agreed_budget(const EngineComms& comms, const std::vector<Unit>& units, const AttachOptions& options,
                           const Placer& placer, const OptimizerSpec& spec) {
  const int shard = comms.mesh.shard;
  // If device and host are both main memory, bytes of states on the host are not free for the device.
  const Budgets& budgets = placer.budgets();
  GatherBudget mine;
  refuse_together(comms, options, [&] {
    mine = gather_budget(options.device_memory, units, shard, placer.placement(), spec, options.stage,
                         budgets.room().device - (budgets.device_is_apart() ? 0 : placer.held().host),
                         /*or_least=*/budgets.is_learned());
  });
  // If one rank keeps parts, all ranks do: the least capacity has room for them.
  return {.capacity_bytes = all_reduce_min(comms.run, mine.capacity_bytes),
          .prefetched_numel = mine.prefetched_numel,
          .overlaps_updates = overlaps_updates(placer.most_away(), units, shard, spec, options.offload),
          .keeps_parts = all_reduce_max(comms.run, mine.keeps_parts ? 1 : 0) == 1};
}

// Checks the room before any rank makes a file: a file made earlier would take room from a rank that has not checked
// yet.
void require_room(const EngineComms& comms, DiskOptions disk, int local_world, const DiskSeam& seam) {
  std::int64_t bytes = 0;
  for (const std::int64_t of_rank : all_gather_value(comms.run, disk.bytes)) bytes += of_rank;
  if (bytes == 0) return;
  const int world = comms.run.world();
  disk.bytes = (bytes + world - 1) / world;  // weighted shards are unequal
  refuse_alike(comms.run, [&] { DiskTier::require_room(disk, std::clamp(local_world, 1, world), seam); });
}

std::unique_ptr<DiskTier> make_disk(const EngineComms& comms, const AttachOptions& options, std::int64_t bytes,
                                    const EngineHost& host) {
  const OffloadOptions& offload = options.offload;
  refuse_together(comms, options, [&] { require_disk(offload, bytes); });
  if (offload.disk.empty()) return nullptr;
  const DiskOptions disk{.paths = offload.disk,
                         .bytes = bytes,
                         .checksums = offload.checksums,
                         .timeout = offload.disk_timeout,
                         .timeline = options.timeline};
  const DiskSeam& seam = DiskSeam::or_none(host.seams.disk_seam);
  require_room(comms, disk, host.local_world, seam);
  return bytes == 0 ? nullptr : std::make_unique<DiskTier>(disk, seam);
}

int agreed_depth(const EngineComms& comms, const std::vector<Unit>& units, const AttachOptions& options,
                 const Placer& placer, const OptimizerSpec& spec) {
  int depth = 0;
  refuse_together(comms, options, [&] {
    depth = tiles_ahead(options.offload.host_memory, units, comms.mesh.shard, placer.placement(), placer.most_away(),
                        spec, placer.budgets().room().host);
  });
  return depth;
}

std::unique_ptr<Link> make_link(const AttachOptions& options, Device& device, const LinkClock* clock) {
  if (!device.host_readable()) {
    // States on the device: kUp writes sums and first values, and kUpdate reads and writes states. The host has waited
    // for readers in kDown.
    const LaneLink::Earlier earlier{.up = {Lane::kUpdate}, .down = {Lane::kUp, Lane::kUpdate}};
    return std::make_unique<LaneLink>(device, earlier, options.timeline);
  }
  if (options.offload.link_bytes_per_second <= 0) return nullptr;
  return std::make_unique<PacedLink>(options.offload.link_bytes_per_second, options.timeline,
                                     clock == nullptr ? LinkClock::machine() : *clock);
}

std::vector<std::string> names_of(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) names.push_back(unit.name);
  return names;
}

// A test's reader is called by one thread at a time.
MemoryWatch::Source source_of(const EngineHost& host) {
  if (!host.seams.read_memory) return read_memory;
  return [read = host.seams.read_memory, mutex = std::make_shared<std::mutex>()] {
    const std::scoped_lock lock(*mutex);
    return read();
  };
}

AttachOptions checked(AttachOptions options, Communicator& comm, const std::vector<ParamSpec>& specs) {
  const int world = comm.world();
  require_numbers(options);
  require_secondary(options, world);
  require_wire(options, world);
  require_rule(options, *rule_of(options));
  require_same_options(comm, options, specs);
  return settle_leaves(std::move(options), world);
}

// Throws ConfigError for options that exclude a link between devices.
void check_link(const Device& device, const AttachOptions& options, const Placement& placement) {
  const auto refuse = [](std::string_view reason, std::string_view remedy) {
    throw ConfigError("comm.transport", "nccl", reason, remedy);
  };
  if (device.host_readable())
    refuse("it moves bytes between GPUs, and units here are in main memory",
           "train on a GPU, or leave comm.transport out");
  const WireCodecs& wire = placement.wire;
  if (wire.gather != WireCodec::kNone || wire.reduce != WireCodec::kNone)
    refuse("the host encodes units for codecs (comm.gather_wire, comm.reduce_wire)", "set only one of the two");
  if (placement.copies > 1)
    refuse("the host adds up the gradients of copies of the model (zero.group)", "set only one of the two");
  if (placement.secondary_group > 0)
    refuse("secondary parts of weights (zero.secondary_group) pass through the host", "set only one of the two");
  if (options.sums == RankSums::kLinked && options.shards != Cut::kRange)
    throw ConfigError("zero.shards", std::string(name_of(options.shards)),
                      "NCCL sums only equal blocks (zero.reduce = nccl), and these shards are not equal",
                      "use range, or leave zero.reduce out");
}

// Returns the device. Throws ConfigError for options that are not implemented for such a device or link.
Device& require_possible_on(Device& device, const AttachOptions& options, const Placement& placement, bool linked) {
  if (options.sums == RankSums::kLinked && !linked)
    throw ConfigError("zero.reduce", "nccl",
                      "NCCL can sum only units that it moves between GPUs, and another transport moves them here",
                      "use comm.transport nccl with run.device cuda, or leave it out");
  if (linked) check_link(device, options, placement);
  if (device.host_readable()) return device;
  if (options.leaves > 0)
    throw ConfigError(
        "train.leaves", fmt::format("{}", options.leaves),
        fmt::format("sums in a tree do not work yet on a device that the host cannot read ({})", device.name()),
        "leave it out, or train on the CPU (run.device = \"cpu\")");
  const auto refuse = [&device](std::string_view key, std::string_view value, std::string_view what) {
    throw ConfigError(key, value,
                      fmt::format("{} does not work on a device that the host cannot read ({})", what, device.name()),
                      "leave it out, or train on the CPU");
  };
  if (std::holds_alternative<OwnRuleOptions>(options.optimizer) && rule_of(options)->factors() != nullptr)
    refuse("optimizer.rule", name_of(options.optimizer), "your own update rule with states of rows and columns");
  if (placement.merged_copies > 1) refuse("sync.mode", "local", "training copies apart");
  return device;
}

std::optional<LossScale> loss_scale_of(const AttachOptions& options, const std::vector<Unit>& units) {
  if (options.loss_scale) return LossScale(*options.loss_scale);
  const bool needs_one =
      std::ranges::any_of(units, [](const Unit& unit) { return unit.trainable && unit.dtype == DType::kFloat16; });
  return needs_one ? std::optional(LossScale(LossScaleOptions{})) : std::nullopt;
}

}  // namespace

EngineParts::EngineParts(Communicator& communicator, std::vector<ParamSpec> parameters, const std::vector<Unit>& cut,
                         const AttachOptions& wanted, UnitObserver& observer, const EngineHost& host)
    : specs(std::move(parameters)),
      options(checked(wanted, communicator, specs)),
      leaves(leaves_of(options, communicator.world())),
      local_world(host.local_world),
      read_memory(source_of(host)),
      comms(communicator, mesh_of(communicator.world(), options).shard,
            /*units_apart=*/host.device != nullptr && !host.device->host_readable(), options.secondary_group),
      units(as_seen_by(cut, comms.copy.rank())),
      loss_scale(loss_scale_of(options, units)),
      rule(rule_of(options)),
      placer(&comms.run, comms.mesh, options, units, *rule, host),
      budget(agreed_budget(comms, units, options, placer, spec_of(*rule))),
      device(require_possible_on(host.device != nullptr ? *host.device : HostDevice::instance(), options,
                                 placer.most_away(), host.open_link != nullptr)),
      unit_comms(comms, units, options, *rule, placer.placement(), budget, ledger, device, host),
      disk(make_disk(comms, options,
                     state_bytes(units, comms.mesh.shard, placer.most_away(), spec_of(*rule), Tier::kDisk).total(),
                     host)),
      link(make_link(options, device, host.seams.link_clock)),
      state(units, placer.placement(), rule->states(), unit_comms.of_states(), ledger,
            {.disk = disk.get(),
             .link = link.get(),
             .lanes = dynamic_cast<LaneLink*>(link.get()),
             .device = &device,
             .depth = agreed_depth(comms, units, options, placer, spec_of(*rule)),
             .host_updates = host_updates(device, options),
             .movable = placer.movable()}),
      secondary(state, unit_comms.of_parts(), ledger),
      gatherer(state, unit_comms.of_units(), ledger, observer, secondary, shard_updates(), options.timeline),
      reducer(state, specs.size(), budget.is_min(), unit_comms.of_units(), ledger, options.timeline,
              unit_comms.over_copies(), leaves),
      updater(state, *rule, specs, options, comms.copy, ledger, unit_comms.of_directions()),
      executor(state, budget, gatherer, secondary, reducer, updater),
      passes(state, gatherer, reducer, executor),
      writes(specs.size(), options.local ? comms.mesh.shard : communicator.world(), host.updated_elsewhere) {
  // Gathered units and gradients share one set of blocks. At the end of the backward pass, when memory is scarcest, a
  // gradient can then use the largest block of a gather.
  if (budget.is_min()) gatherer.blocks().borrow(reducer.blocks());
  // If the host updates states of a device, it does so while it waits for the device.
  unit_comms.while_waiting([this] { return updater.pump_tile(); });
  for (WorkTimer* const timer : {&gatherer.timer(), &reducer.timer()})
    timer->leave_out([this] { return updater.meanwhile_seconds(); });
  if (host_updates(device, options) && comms.run.rank() == 0)
    ZERO_LOG(
        warn,
        "{} has no code for {}: the host updates. In each step a rank copies {} from there to the host, and copies "
        "weights and optimizer state back",
        rule->name(), device.name(),
        format_bytes(state_bytes(units, comms.mesh.shard, placer.placement(), spec_of(*rule), Tier::kDevice).total()));
  if (options.timeline != nullptr) options.timeline->name_units(names_of(state.units()));
}

EngineParts::~EngineParts() {
  unit_comms.close();
  try {
    join_all(device);
  } catch (const std::exception& error) {
    ZERO_LOG(error, "the device failed while an engine ended: {}", error.what());
  }
}

// The updater must exist before the first call of these functions.
ShardUpdates EngineParts::shard_updates() {
  ShardUpdates updates{.current = [this](int unit) { return updater.current(unit); },
                       .complete = [this](int unit) { updater.complete(unit); }};
  // With a link, parameters that the host updated are on the device only after they crossed it; without one, at once.
  if (link == nullptr)
    updates.complete_into = [this](int unit, std::byte* into) { return updater.complete_into(unit, into); };
  return updates;
}

}  // namespace zero
