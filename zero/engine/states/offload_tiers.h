// OffloadTiers: what stands below the device for a rank's states, and how they cross to it.
//
//   ShardedState state(units, placement, optimizer, comm, ledger, {.disk = &disk, .depth = 2});
#pragma once

#include <cstdint>

#include "zero/device/host_device.h"
#include "zero/engine/states/tile_stream.h"
#include "zero/memory/link/lane_link.h"

namespace zero {

struct OffloadTiers {
  static constexpr int kDefaultDepth = 4;
  DiskTier* disk = nullptr;   // null where the placement puts nothing there
  Link* link = nullptr;       // null where none stands between device and host
  LaneLink* lanes = nullptr;  // the same link, of a device with lanes
  Device* device = &HostDevice::instance();
  int depth = kDefaultDepth;  // tiles read ahead, and written behind; with 1 nothing is fetched ahead of its use
  bool host_updates = false;  // the host updates every tile, wherever it lies
  bool movable = false;       // what can leave the device may move between tiers later

  // Tiles of a unit's parameters that come ahead of its gather, and of its gradient that leave behind its reduction.
  static constexpr int prefetch_depth(int depth) { return depth > 1 ? 4 * depth : 1; }
  // Elements in those, where the host's budget allows the usual depth.
  static constexpr std::int64_t most_prefetched_numel() {
    return prefetch_depth(kDefaultDepth) * TileStream::kTileNumel;
  }
};

}  // namespace zero
