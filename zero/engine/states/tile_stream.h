// TileStream: one pass over ranges of several states, tile by tile, wherever each of them lies.
//
// A tile in memory is handed out in place. A tile on disk is read ahead into staging memory and written back behind,
// `depth` tiles each way, so that reading, computing and writing overlap.
//
//   TileStream pass(disk, staging, depth);
//   pass.begin({{&moments, TileAccess::kReadWrite}}, {{u, numel}, ...});
//   while (const Tile* tile = pass.next()) compute(tile->begin, tile->numel, tile->data[0]);
//   pass.finish();                               // written tiles are on disk
//
// With a link between device and host, a tile with a state off the device is computed on the host. Its states on the
// device cross the link and come back, ahead and behind like those of the disk. kBring and kSend are for parameters and
// gradients that the device needs or gives: their parts on disk take disk and link one after the other, in the same
// staging block.
//
// On a device that the host cannot read, who takes a kBring tile copies it up in kUp, and who fills a kSend tile does so in kDown,
// before the next call: the tile's memory is used again, and goes on to the disk, behind that copy. Where the host
// works on every tile, what it wrote goes up behind the operators that may still read it (kCompute).
//
// Invariants: a tile lies in one unit and, in each array, on one tier; tiles come in the order of the ranges and cover
// them. A tile is valid until the next call. Arrays that are only written must be filled by whoever takes the tile.
//
// Local; one pass at a time. Errors of the disk (IoError) are thrown by next() and finish().
#pragma once

#include <array>
#include <deque>
#include <string_view>
#include <vector>

#include "zero/engine/states/state_array.h"
#include "zero/memory/disk/block_pool.h"
#include "zero/memory/link/link.h"

namespace zero {

enum class TileAccess : std::uint8_t { kRead, kWrite, kReadWrite, kBring, kSend };

constexpr std::size_t kMaxTileArrays = 9;  // parameter, gradient, master, and the optimizer's states and their scales

struct TileArray {
  const StateArray* array = nullptr;
  TileAccess access = TileAccess::kRead;
};

// Elements [0, numel) of a unit; numel 0 passes it over.
struct TileRange {
  int unit = 0;
  std::int64_t numel = 0;
};

// A state that is whole: it is on the device, and is worked on there. Where a tile is computed on the host, what that
// reads and writes of it crosses the link, which here takes time alone.
struct LinkTransfer {
  TileAccess access = TileAccess::kRead;
  std::vector<std::int64_t> element_bytes;  // by unit
};

struct Tile {
  int unit = 0;
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  std::array<std::byte*, kMaxTileArrays> data{};  // element `begin` of each array; null where the unit has none
  bool on_host = true;                            // else `data` are addresses on the device, which the host cannot read
};

class TileStream {
 public:
  // Elements of a tile of which something is on disk: 1 MiB of fp32.
  static constexpr std::int64_t kTileNumel = std::int64_t{1} << 18;
  // Tiles that a pass holds at most: read ahead, in hand, written behind, and one on its way between those.
  static constexpr std::int64_t most_tiles(int depth) { return 2 * static_cast<std::int64_t>(depth) + 2; }
  // The same of a pass that reads nothing.
  static constexpr std::int64_t most_written_tiles(int depth) { return static_cast<std::int64_t>(depth) + 2; }

  // `staging` is made of page-aligned memory. `disk` may be null where no array lies there, `link` where none stands.
  // `for_the_host`: the host works on its tiles, wherever they lie.
  TileStream(Device& device, DiskTier* disk, Link* link, BlockPool& staging, int depth, bool for_the_host = false);
  ~TileStream();
  TileStream(const TileStream&) = delete;
  TileStream& operator=(const TileStream&) = delete;

  // Ends the pass before, as finish() does. `for_the_host`: of this pass, whatever was said at construction.
  void begin(std::vector<TileArray> arrays, std::vector<TileRange> ranges,
             std::vector<LinkTransfer> link_transfers = {}, bool for_the_host = false);
  // The range follows those that the pass was begun with. None of its arrays may change in between.
  void add(const TileRange& range);
  // The unit of the tile that next() will return; -1 at the end.
  int next_unit() const { return waiting_.empty() ? -1 : waiting_.front().tile.unit; }
  // The element of that unit with which the tile begins.
  std::int64_t next_begin() const { return waiting_.empty() ? 0 : waiting_.front().tile.begin; }
  const Tile* next();
  // Neither next() nor the put_back() of what it returns will wait.
  bool ready();
  // Ends the tile handed out last: what it wrote begins to go where it belongs. next() does so, too.
  void put_back();
  // Whether all that this unit's tiles wrote is where it belongs; flush() waits for it.
  bool settled(int unit);
  void flush(int unit);
  // Of the unit's elements before next_begin() (all, once it has no tile left): what this pass still holds of `array`
  // is copied to where it belongs in `into`. The rest is where it belongs already; returns how many elements that is,
  // from the first.
  std::int64_t copy_unsettled(int unit, std::size_t array, std::byte* into);
  // No tile is left, and what was written is where it belongs: finish() would not wait.
  bool idle();
  void finish();

 private:
  struct Flight {
    Tile tile;
    std::array<std::byte*, kMaxTileArrays> staged{};  // blocks of the arrays that are on disk here
    std::vector<Transfer> transfers;
    bool started = false;
  };

  enum class Way : std::uint8_t { kDirect, kDisk, kLink };
  Way way(const TileArray& array, int unit, std::int64_t element, bool on_host) const;
  bool on_host(int unit, std::int64_t element) const;
  void cut(const TileRange& range);
  void cross(Flight& flight, bool down);
  void read_ahead();
  void start(Flight& flight);
  void begin_second_legs();
  void retire_oldest();
  void retire_done();
  void release(const Flight& flight);
  void tell_host_touches(const Access& access, std::string_view who) const;
  void tell_host_takes(const Tile& tile) const;
  std::size_t padded_bytes(const Tile& tile, const StateArray& array) const;

  Device& device_;
  DiskTier* disk_;
  Link* link_;
  BlockPool& staging_;
  std::size_t depth_;
  const bool all_for_the_host_;
  bool for_the_host_;  // of the pass
  std::vector<TileArray> arrays_;
  std::vector<LinkTransfer> link_transfers_;
  bool reads_ = false;          // some array
  std::deque<Flight> waiting_;  // not handed out yet; the first `depth` with something on disk are being read
  std::deque<Flight> current_;  // the one that is handed out, or none
  std::deque<Flight> writing_;
};

}  // namespace zero
