// OffloadTiers: the tiers below the device that hold a rank's states, and the transfers to them.
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
  DiskTier* disk = nullptr;   // null: the placement puts nothing on disk
  Link* link = nullptr;       // null: no link between device and host
  LaneLink* lanes = nullptr;  // the same link, for a device with lanes
  Device* device = &HostDevice::instance();
  int depth = kDefaultDepth;  // tiles read ahead, and tiles written behind; 1: no tile is fetched before its use
  bool host_updates = false;  // the host updates every tile, on whichever tier it is stored
  bool movable = false;       // states that can leave the device may move between tiers later

  // Tiles of a unit's parameters that are fetched before its gather, and of its gradient that are written after its
  // reduction.
  static constexpr int prefetch_depth(int depth) { return depth > 1 ? 4 * depth : 1; }
  // Elements in these tiles, if the host's budget allows the usual depth.
  static constexpr std::int64_t most_prefetched_numel() {
    return prefetch_depth(kDefaultDepth) * TileStream::kTileNumel;
  }
};

}  // namespace zero
