// DeviceCopies: copies between a device, pinned memory and a disk, for `zero bench offload`.
//
//   DeviceCopies copies(device, disk, /*bytes=*/256 << 20, /*depth=*/4);
//   copies.up();         copies.bare_up();       // host to device: tile by tile over the engine's link, and at once
//   copies.from_disk();                          // disk to pinned memory to device
//
// up(), down(), both(), to_disk() and from_disk() move tiles of TileStream over a LaneLink, as an engine does. At most
// `depth` tiles are in flight. The bare functions make one copy of all bytes in each direction. Each function returns
// when the host has seen that the bytes have arrived. The sequence up(), to_disk(), from_disk(), down() copies sent()
// to received(). On main memory (HostDevice) a copy is a memcpy, and complete at once. Local. Throws ConfigError if
// memory is short, and IoError if the disk fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "zero/device/device.h"
#include "zero/engine/states/tile_stream.h"
#include "zero/memory/disk/disk_tier.h"
#include "zero/memory/link/lane_link.h"

namespace zero::cli {

class DeviceCopies {
 public:
  static constexpr std::int64_t kTileBytes = TileStream::kTileNumel * static_cast<std::int64_t>(sizeof(float));

  // `bytes`: size of each direction, in whole tiles. The device holds twice as many, and so does pinned memory.
  // `device` and `disk` outlive this object.
  DeviceCopies(Device& device, DiskTier& disk, std::int64_t bytes, int depth);

  void up();         // sent() to the device
  void down();       // the bytes that from_disk() copied to the device, to received()
  void both();       // both at once
  void to_disk();    // the bytes that up() copied to the device
  void from_disk();  // the bytes that to_disk() wrote, to another array of the device

  void bare_up();
  void bare_down();
  void bare_both();

  std::span<const std::byte> sent() const { return sent_.bytes(); }
  std::span<const std::byte> received() const { return received_.bytes(); }

 private:
  using Begin = std::function<Transfer(std::int64_t at)>;
  // Calls begin() with the offset of each tile. At most `depth` of the returned transfers are in flight.
  void for_each_tile(const Begin& begin);
  std::span<std::byte> block_of(std::int64_t at) const;
  void host_touches(const Access& access, std::string_view who);

  Device& device_;
  DiskTier& disk_;
  std::int64_t bytes_;
  std::int64_t depth_;
  std::int64_t place_;       // offset on the disk tier
  Allocation sent_, there_;  // pinned; on the device
  Allocation back_, received_;
  Allocation blocks_;  // pinned: a tile for each transfer in flight to or from the disk
  LaneLink link_;
};

}  // namespace zero::cli
