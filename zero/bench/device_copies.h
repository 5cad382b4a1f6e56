// DeviceCopies: bytes between a device, pinned memory of the host and a disk, moved as an engine moves its states, and in
// one bare copy, for `zero bench offload`.
//
//   DeviceCopies copies(device, disk, /*bytes=*/256 << 20, /*depth=*/4);
//   copies.up();         copies.bare_up();       // host to device: tile by tile over the engine's link, and at once
//   copies.from_disk();                          // disk to pinned memory to device
//
// The engine's way: tiles of TileStream, `depth` of them on their way, over a LaneLink. Each function returns when the host has
// seen that the bytes are there. A round of up(), to_disk(), from_disk(), down() brings sent() to received(). On main memory
// (HostDevice) a copy is a memcpy, and done at once. Local. Throws ConfigError where memory is short, and IoError of the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "zero/device/device.h"
#include "zero/engine/tile_stream.h"
#include "zero/memory/disk_tier.h"
#include "zero/memory/lane_link.h"

namespace zero::cli {

class DeviceCopies {
 public:
  static constexpr std::int64_t kTileBytes = TileStream::kTileNumel * static_cast<std::int64_t>(sizeof(float));

  // `bytes`: of each direction, in whole tiles. The device holds twice as many, and so does pinned memory.
  // `device` and `disk` outlive it.
  DeviceCopies(Device& device, DiskTier& disk, std::int64_t bytes, int depth);

  void up();         // sent() to the device
  void down();       // to received(), from where from_disk() puts bytes on the device
  void both();       // both at once
  void to_disk();    // what up() brought
  void from_disk();  // what to_disk() wrote

  void bare_up();
  void bare_down();
  void bare_both();

  std::span<const std::byte> sent() const { return sent_.bytes(); }
  std::span<const std::byte> received() const { return received_.bytes(); }

 private:
  using Begin = std::function<Transfer(std::int64_t at)>;
  // Calls begin() for each tile's first byte. At most `depth` of what it returns are on their way.
  void for_each_tile(const Begin& begin);
  std::span<std::byte> block_of(std::int64_t at) const;
  void host_touches(const Access& access, std::string_view who);

  Device& device_;
  DiskTier& disk_;
  std::int64_t bytes_;
  std::int64_t depth_;
  std::int64_t place_;       // on the disk
  Allocation sent_, there_;  // on the host and the device
  Allocation back_, received_;
  Allocation blocks_;  // pinned, a tile for each that is on its way to or from the disk
  LaneLink link_;
};

}  // namespace zero::cli
