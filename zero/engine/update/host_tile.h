// HostTile: the whole parameters and gradients of a tile that the host updates for a device that it cannot read.
//
//   HostTile tile(device, blocks);
//   memory.gradient = tile.bring({gradient, bytes});   // in kDown, after kUp and kUpdate; its address on the host
//   memory.held = tile.room(parameters);               // for memory that is only written
//   tile.wait();                                       // the host waits for kDown, if anything is copied
//   ...                                                // the host reads and writes
//   tile.send(part);                                   // part of `parameters`: copied up in kUp, after kCompute
//
// The tile's stream (TileStream) does not transfer them. A copy up waits for operators that may still read the
// parameters. The next user of the parameters must wait for kUp. Blocks are pinned memory, and are freed with the tile.
// Local.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "zero/memory/disk/block_pool.h"
#include "zero/memory/link/lane_link.h"

namespace zero {

class HostTile {
 public:
  // `blocks`: of pinned memory, with this device. `lanes` times the copies, as those of `unit`; null: off. All must
  // outlive it.
  HostTile(Device& device, BlockPool& blocks, LaneLink* lanes = nullptr, int unit = -1)
      : device_(device), blocks_(blocks), lanes_(lanes), unit_(unit) {}
  HostTile(const HostTile&) = delete;
  HostTile& operator=(const HostTile&) = delete;
  ~HostTile();

  // `there`: on the device.
  std::byte* bring(std::span<const std::byte> there);
  std::byte* room(std::span<const std::byte> there);
  void wait();
  void send(std::span<std::byte> there);

 private:
  struct Block {
    std::byte* data = nullptr;
    std::span<const std::byte> there{};
    bool sent = false;
  };
  LaneSpan time(Activity direction, std::int64_t bytes) const {
    return lanes_ != nullptr ? lanes_->time(direction, unit_, bytes) : LaneSpan();
  }

  Device& device_;
  BlockPool& blocks_;
  LaneLink* lanes_;
  int unit_;
  std::vector<Block> held_;
  bool brought_ = false;
};

}  // namespace zero
