// TileStream: one pass over ranges of several states, tile by tile, on any tier. OffloadTiers: these tiers.
//
//   TileStream pass(disk, staging, depth);
//   pass.begin({{&moments, TileAccess::kReadWrite}}, {{u, numel}, ...});
//   while (const Tile* tile = pass.next()) compute(tile->begin, tile->numel, tile->data[0]);
//   pass.finish();                               // written tiles are on disk
//
// A tile in memory is used in place. A tile on disk is read ahead into staging memory and written behind, `depth` tiles
// each way, so reading, computing and writing overlap. If a state of a tile is off the device, the host computes the
// tile. States of that tile that are on the device then cross the link in the same way: down before its use, and up
// after it. Invariants: a tile is in one unit and, in each array, on one tier; tiles follow the order of the ranges and
// cover them. A tile is valid until the next call. The caller must fill arrays that are only written. Local; one pass
// at a time. next() and finish() throw the disk's errors (IoError).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "zero/device/host_device.h"
#include "zero/engine/states/state_array.h"
#include "zero/memory/disk/block_pool.h"
#include "zero/memory/link/lane_link.h"
#include "zero/memory/link/link.h"
#include "zero/optim/rule/update_span.h"

namespace zero {

// kBring and kSend are for parameters that the device needs and gradients that it gives. Their parts on disk cross the
// disk and then the link, in the same staging block. On a device that the host cannot read, the caller copies a kBring
// tile up in kUp, or fills a kSend tile in kDown. It does so before the next call. The tile's memory is used again, or
// written to the disk, only after that copy. If the host works on every tile, its writes are copied up after the
// operators that may still read the old values (kCompute).
enum class TileAccess : std::uint8_t { kRead, kWrite, kReadWrite, kBring, kSend };

// Parameter, gradient, master, states, and scales of states in 8 bits.
constexpr std::size_t kMaxTileArrays = 3 + kMostStates + kMostOwnStates;

struct TileArray {
  const StateArray* array = nullptr;
  TileAccess access = TileAccess::kRead;
};

// Elements [0, numel) of a unit; with numel 0 the pass skips the unit.
struct TileRange {
  int unit = 0;
  std::int64_t numel = 0;
};

// A whole state on the device, which is updated there. If a tile is computed on the host, the tile's part of this state
// crosses the link. Here that transfer only takes time: nothing is copied.
struct LinkTransfer {
  TileAccess access = TileAccess::kRead;
  std::vector<std::int64_t> element_bytes;  // by unit
};

struct Tile {
  int unit = 0;
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  std::array<std::byte*, kMaxTileArrays> data{};  // element `begin` of each array; null if the unit has none
  bool on_host = true;  // if false, `data` are addresses on the device, which the host cannot read
};

class TileStream {
 public:
  // Elements of a tile that is partly on disk: 1 MiB of fp32.
  static constexpr std::int64_t kTileNumel = std::int64_t{1} << 18;
  // Returns the most tiles of a pass: read ahead, in use, written behind, and one between these.
  static constexpr std::int64_t most_tiles(int depth) { return 2 * static_cast<std::int64_t>(depth) + 2; }
  // Returns the same for a pass that reads nothing.
  static constexpr std::int64_t most_written_tiles(int depth) { return static_cast<std::int64_t>(depth) + 2; }

  // `staging` has page-aligned memory. `disk` may be null if no array is on disk, `link` if there is none.
  // `for_the_host`: the host works on its tiles, on whichever tier they are.
  TileStream(Device& device, DiskTier* disk, Link* link, BlockPool& staging, int depth, bool for_the_host = false);
  ~TileStream();
  TileStream(const TileStream&) = delete;
  TileStream& operator=(const TileStream&) = delete;

  // Ends the pass before, as finish() does. `for_the_host`: for this pass, in addition to the constructor's value.
  void begin(std::vector<TileArray> arrays, std::vector<TileRange> ranges,
             std::vector<LinkTransfer> link_transfers = {}, bool for_the_host = false);
  // Appends a range to the pass. None of its arrays may change in between.
  void add(const TileRange& range);
  // Returns the unit of the tile that next() will return; -1 at the end.
  int next_unit() const { return waiting_.empty() ? -1 : waiting_.front().tile.unit; }
  // Returns the first element of that tile in the unit.
  std::int64_t next_begin() const { return waiting_.empty() ? 0 : waiting_.front().tile.begin; }
  const Tile* next();
  // Returns whether next(), and put_back() of its tile, would not wait.
  bool ready();
  // Ends the last tile: its writes begin to move to their tiers. next() also does so.
  void put_back();
  // Returns whether all writes of this unit's tiles are on their tiers; flush() waits for that.
  bool settled(int unit);
  void flush(int unit);
  // Copies the unit's elements of `array` that the pass has not written yet to their places in `into`. It looks at
  // elements before next_begin(), or at all if no tile of the unit is left. The other elements are already on their
  // tier. Returns their number, from the first.
  std::int64_t copy_unsettled(int unit, std::size_t array, std::byte* into);
  // Returns whether no tile is left and all writes are on their tiers: finish() would not wait.
  bool idle();
  void finish();

 private:
  struct MovingTile {
    Tile tile;
    std::array<std::byte*, kMaxTileArrays> staged{};  // blocks of the arrays that are on disk here
    std::vector<Transfer> transfers;
    bool started = false;
  };

  enum class Way : std::uint8_t { kDirect, kDisk, kLink };
  Way way(const TileArray& array, int unit, std::int64_t element, bool on_host) const;
  bool on_host(int unit, std::int64_t element) const;
  void cut(const TileRange& range);
  void cross(MovingTile& moving, bool down);
  void read_ahead();
  void start(MovingTile& moving);
  void begin_second_legs();
  void retire_oldest();
  void retire_done();
  void release(const MovingTile& moving);
  void note_host_access(const Access& access, std::string_view who) const;
  void note_tile_access(const Tile& tile) const;
  std::size_t padded_bytes(const Tile& tile, const StateArray& array) const;

  Device& device_;
  DiskTier* disk_;
  Link* link_;
  BlockPool& staging_;
  std::size_t depth_;
  const bool all_for_the_host_;
  bool for_the_host_;  // for this pass
  std::vector<TileArray> arrays_;
  std::vector<LinkTransfer> link_transfers_;
  bool reads_ = false;              // some array is read
  std::deque<MovingTile> waiting_;  // tiles not handed out yet; the first `depth` with a part on disk are being read
  std::deque<MovingTile> current_;  // the tile in use, or none
  std::deque<MovingTile> writing_;
};

// Calls visit(tile) for every tile of a unit's part of the arrays, now. Its writes are on their tiers after
// TileStream::finish() or the next pass.
template <typename Visit>
void for_each_tile(TileStream& stream, const std::vector<TileArray>& arrays, int unit, Visit visit) {
  const StateArray& array = *arrays.front().array;
  if (!array.has(unit)) return;
  stream.begin(arrays, {{unit, array.split(unit).numel()}});
  while (const Tile* tile = stream.next()) visit(*tile);
}

// OffloadTiers: the tiers below the device that hold a rank's states, and the transfers to them.
//
//   ShardedState state(units, placement, optimizer, comm, ledger, {.disk = &disk, .depth = 2});
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
