// `zero bench offload --device NAME`: the copies of offloading, and an optimizer step with weights on the device. The
// copies are between a device, pinned memory and a disk, tile by tile as an engine makes them. The same run measures
// one bare copy of as many bytes, their limit. The step has weights and gradients on the device and moments on the host
// or the disk. Its limit is the longest of its parts.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/text/bytes.h"
#include "zero/device/open_device.h"

#include "app/cli/bench/bench.h"
#include "app/cli/bench/offload_bench.h"
#include "app/cli/bench/parts/device_copies.h"

namespace zero::cli {
namespace {

// Best and median seconds.
struct BestAndMedian {
  double best = 0, median = 0;
};

BestAndMedian of(const Measurement& measured, double times = 1) {
  return {times * measured.best(), times * measured.median()};
}
BestAndMedian longest(std::initializer_list<BestAndMedian> parts) {
  BestAndMedian all;
  for (const BestAndMedian& part : parts) all = {std::max(all.best, part.best), std::max(all.median, part.median)};
  return all;
}

struct DeviceOffload {
  Measurement up, down, both, to_disk, from_disk;  // as an engine copies
  Measurement bare_up, bare_down, bare_both;       // one copy of as many bytes
  Measurement read, write;                         // twice as many bytes: both moments
  Measurement update;                              // with everything in main memory
  Measurement host_step, disk_step;
  bool restless() const {
    double spread = 0;
    for (const Measurement* probe : {&bare_up, &bare_down, &bare_both, &read, &write})
      spread = std::max(spread, probe->spread());
    return spread > kRestless;
  }

  // A step copies gradients and weights from the device, and weights to it, both at once.
  BestAndMedian host_limit() const { return longest({of(bare_down, 2), of(bare_up), of(update)}); }
  BestAndMedian disk_limit() const { return longest({host_limit(), of(read), of(write)}); }
};

// One route of bytes: the engine's time, and the least time that its parts need.
struct WayOfBytes {
  const char* key;
  const char* name;
  int arrays;  // arrays of --mib that are copied
  BestAndMedian engine, bare;
};

std::array<WayOfBytes, 5> ways_of(const DeviceOffload& m) {
  return {{{"up", "host to device", 1, of(m.up), of(m.bare_up)},
           {"down", "device to host", 1, of(m.down), of(m.bare_down)},
           {"both", "both at once", 2, of(m.both), of(m.bare_both)},
           {"from_disk", "disk to device", 1, of(m.from_disk), longest({of(m.read, 0.5), of(m.bare_up)})},
           {"to_disk", "device to disk", 1, of(m.to_disk), longest({of(m.write, 0.5), of(m.bare_down)})}}};
}

DeviceOffload measure_offload(const OffloadBenchOptions& options, DeviceCopies& copies, MomentStep& host_step,
                              MomentStep& disk_step) {
  DiskProbe probe(options.step.folders, options.step.mib << 21, kProbeDepth);
  MomentStep resident(options.step, Tier::kDevice);
  DeviceOffload m;
  // The first round is not counted: it contains the first writes to preallocated files, the first access to memory, and
  // a device's first copies.
  for (int round = 0; round <= options.rounds; ++round) {
    DeviceOffload once;
    once.bare_up.time([&] { copies.bare_up(); });
    once.up.time([&] { copies.up(); });
    once.bare_down.time([&] { copies.bare_down(); });
    once.down.time([&] { copies.down(); });
    once.bare_both.time([&] { copies.bare_both(); });
    once.both.time([&] { copies.both(); });
    once.write.time([&] { probe.write(); });
    once.to_disk.time([&] { copies.to_disk(); });
    once.read.time([&] { probe.read(); });
    once.from_disk.time([&] { copies.from_disk(); });
    once.update.time([&] { resident.run(); });
    once.host_step.time([&] { host_step.run(); });
    once.disk_step.time([&] { disk_step.run(); });
    if (round == 0) continue;
    for (const auto part : {&DeviceOffload::up, &DeviceOffload::down, &DeviceOffload::both, &DeviceOffload::to_disk,
                            &DeviceOffload::from_disk, &DeviceOffload::bare_up, &DeviceOffload::bare_down,
                            &DeviceOffload::bare_both, &DeviceOffload::read, &DeviceOffload::write,
                            &DeviceOffload::update, &DeviceOffload::host_step, &DeviceOffload::disk_step})
      (m.*part).add((once.*part).best());
  }
  return m;
}

nlohmann::ordered_json json_of_step(const Measurement& step, const BestAndMedian& limit) {
  return {{"best_s", step.best()},
          {"median_s", step.median()},
          {"limit_best_s", limit.best},
          {"limit_median_s", limit.median},
          {"ratio_best", step.best() / limit.best},
          {"ratio_median", step.median() / limit.median}};
}

void print_json(const OffloadBenchOptions& options, const Device& device, const std::string& disk,
                const DeviceOffload& m) {
  nlohmann::ordered_json copies;
  for (const WayOfBytes& way : ways_of(m))
    copies[way.key] = {{"bytes", way.arrays * (options.step.mib << 20)},
                       {"best_s", way.engine.best},
                       {"median_s", way.engine.median},
                       {"bare_best_s", way.bare.best},
                       {"bare_median_s", way.bare.median},
                       {"ratio_best", way.bare.best / way.engine.best},
                       {"ratio_median", way.bare.median / way.engine.median}};
  fmt::print("{}\n", nlohmann::ordered_json{{"bench", "offload"},
                                            {"device", device.name()},
                                            {"tier", disk},
                                            {"dirs", options.step.folders},
                                            {"moment_bytes", options.step.mib << 20},
                                            {"tile_bytes", DeviceCopies::kTileBytes},
                                            {"depth", options.step.depth},
                                            {"threads", options.step.threads},
                                            {"rounds", options.rounds},
                                            {"copies", copies},
                                            {"update_median_s", m.update.median()},
                                            {"step_on_host", json_of_step(m.host_step, m.host_limit())},
                                            {"step_on_disk", json_of_step(m.disk_step, m.disk_limit())},
                                            {"restless", m.restless()}}
                         .dump(2));
}

void print_table(const OffloadBenchOptions& options, const Device& device, const std::string& disk,
                 const DeviceOffload& m) {
  const auto bytes = static_cast<double>(options.step.mib << 20);
  fmt::print("copies of {} between {}, pinned memory and a disk ({}), in tiles of {}, {} ahead, {}, in {}\n",
             format_bytes(options.step.mib << 20), device.name(), disk, format_bytes(DeviceCopies::kTileBytes),
             options.step.depth, format_count(options.rounds, "round"), fmt::join(options.step.folders, ", "));
  fmt::print("  {:<18}{:>12}{:>12}{:>14}{:>14}{:>9}\n", "GB/s", "best", "median", "bare, best", "bare, median",
             "ratio");
  for (const WayOfBytes& way : ways_of(m)) {
    const auto rate = [&](double seconds) { return way.arrays * bytes / 1e9 / seconds; };
    fmt::print("  {:<18}{:>12.2f}{:>12.2f}{:>14.2f}{:>14.2f}{:>9.3f}\n", way.name, rate(way.engine.best),
               rate(way.engine.median), rate(way.bare.best), rate(way.bare.median),
               way.bare.median / way.engine.median);
  }
  fmt::print("  (1: as fast as one bare copy, or as a plain loop on the disk where that is slower)\n");
  fmt::print("AdamW by the host ({}), weights and gradients ({} each) on {}\n",
             format_count(options.step.threads, "thread"), format_bytes(options.step.mib << 20), device.name());
  fmt::print("  {:<30}{:>10}{:>12}\n", "", "best ms", "median ms");
  const auto row = [](std::string_view name, const BestAndMedian& seconds) {
    fmt::print("  {:<30}{:>10.0f}{:>12.0f}\n", name, 1e3 * seconds.best, 1e3 * seconds.median);
  };
  row("gradients and weights down", of(m.bare_down, 2));
  row("weights up", of(m.bare_up));
  row("read the moments", of(m.read));
  row("write the moments", of(m.write));
  row("update, all in main memory", of(m.update));
  const auto step = [&](const std::string& name, const Measurement& seconds, const BestAndMedian& limit) {
    row(name, of(seconds));
    fmt::print("  {:<30}{:>10.3f}{:>12.3f}   (1: the longest of its separate parts)\n", "  ratio",
               seconds.best() / limit.best, seconds.median() / limit.median);
  };
  step("step, moments on the host", m.host_step, m.host_limit());
  step("step, moments on the disk", m.disk_step, m.disk_limit());
  if (m.restless()) fmt::print("  note: probes differ by more than {:.0f} %: measure again\n", 100 * kRestless);
}

}  // namespace

int bench_offload_on_device(const OffloadBenchOptions& options) {
  const std::unique_ptr<Device> device = open_device(options.device);
  // Pinned memory: moments of a step, source and target of the copies, and tiles in transfer. The resident step has
  // four arrays. If main memory is the device, it also holds weights and gradients of two steps, and two arrays of the
  // copies.
  const std::int64_t arrays = 8 + (device->host_readable() ? 6 : 0);
  require_memory((arrays * options.step.mib + 10 * options.step.depth + 160) << 20, "use fewer with --mib");
  const std::int64_t bytes = options.step.mib << 20;
  DiskTier disk({.paths = options.step.folders, .bytes = bytes});
  DeviceCopies copies(*device, disk, bytes, options.step.depth);
  MomentStep host_step(options.step, Tier::kHost, device.get()), disk_step(options.step, Tier::kDisk, device.get());
  const DeviceOffload m = measure_offload(options, copies, host_step, disk_step);
  options.json ? print_json(options, *device, disk.describe(), m) : print_table(options, *device, disk.describe(), m);
  return 0;
}

}  // namespace zero::cli
