#include "zero/engine/states/tile_stream.h"

#include <algorithm>

#include "zero/base/error/check.h"
#include "zero/base/error/log.h"
#include "zero/memory/io/transfer.h"

namespace zero {

TileStream::TileStream(Device& device, DiskTier* disk, Link* link, BlockPool& staging, int depth, bool for_the_host)
    : device_(device),
      disk_(disk),
      link_(link),
      staging_(staging),
      depth_(static_cast<std::size_t>(std::max(depth, 1))),
      all_for_the_host_(for_the_host),
      for_the_host_(for_the_host) {}

TileStream::~TileStream() {
  try {
    finish();
  } catch (const std::exception& error) {
    ZERO_LOG(error, "a state could not be written back: {}", error.what());
  }
}

void TileStream::begin(std::vector<TileArray> arrays, std::vector<TileRange> ranges,
                       std::vector<LinkTransfer> link_transfers, bool for_the_host) {
  finish();
  for_the_host_ = all_for_the_host_ || for_the_host;
  ZERO_CHECK(arrays.size() <= kMaxTileArrays, "{} arrays in one pass", arrays.size());
  arrays_ = std::move(arrays);
  link_transfers_ = std::move(link_transfers);
  reads_ = !std::ranges::all_of(arrays_, [](const TileArray& each) {
    return each.access == TileAccess::kWrite || each.access == TileAccess::kSend;
  });
  for (const TileRange& range : ranges) cut(range);
  read_ahead();
}

void TileStream::add(const TileRange& range) {
  cut(range);
  read_ahead();
}

// Returns whether the host computes the tile, because part of it is off the device.
bool TileStream::on_host(int unit, std::int64_t element) const {
  if (for_the_host_ && !device_.host_readable()) return true;
  return std::ranges::any_of(arrays_, [&](const TileArray& each) {
    return each.array->has(unit) && element >= each.array->split(unit).device && !each.array->split(unit).on_device();
  });
}

TileStream::Way TileStream::way(const TileArray& each, int unit, std::int64_t element, bool on_host) const {
  if (each.array->memory(unit, element) == nullptr) return Way::kDisk;
  if (link_ == nullptr || !on_host) return Way::kDirect;
  const bool wanted_on_device = each.access == TileAccess::kBring || each.access == TileAccess::kSend;
  // The caller that takes or fills the tile copies it over the link.
  if (wanted_on_device && !device_.host_readable()) return Way::kDirect;
  const bool is_on_device = element < each.array->split(unit).device;
  return wanted_on_device == is_on_device ? Way::kDirect : Way::kLink;
}

// Cuts the range where an array continues on another tier, and after every kTileNumel elements if something must be
// moved.
void TileStream::cut(const TileRange& range) {
  for (std::int64_t begin = 0; begin < range.numel;) {
    std::int64_t end = range.numel;
    const bool host = on_host(range.unit, begin);
    bool moved = link_ != nullptr && host && !link_transfers_.empty();
    for (const TileArray& each : arrays_) {
      if (!each.array->has(range.unit)) continue;
      const TierSplit& split = each.array->split(range.unit);
      for (const Tier tier : kLowerTiers) {
        if (split.begin(tier) > begin) end = std::min(end, split.begin(tier));
      }
      moved = moved || way(each, range.unit, begin, host) != Way::kDirect;
    }
    if (moved) end = std::min(end, begin + kTileNumel);
    MovingTile moving;
    moving.tile = {.unit = range.unit, .begin = begin, .numel = end - begin};
    waiting_.push_back(std::move(moving));
    begin = end;
  }
}

std::size_t TileStream::padded_bytes(const Tile& tile, const StateArray& array) const {
  const std::int64_t bytes = array.bytes_of(tile.unit, tile.numel);
  return static_cast<std::size_t>((bytes + kDiskPageBytes - 1) / kDiskPageBytes * kDiskPageBytes);
}

void TileStream::cross(MovingTile& moving, bool down) {
  const Tile& tile = moving.tile;
  if (link_ == nullptr || link_transfers_.empty() || !on_host(tile.unit, tile.begin)) return;
  for (const LinkTransfer& link_transfer : link_transfers_) {
    if (link_transfer.access != TileAccess::kReadWrite && (link_transfer.access == TileAccess::kRead) != down) continue;
    const std::int64_t bytes = tile.numel * link_transfer.element_bytes[static_cast<std::size_t>(tile.unit)];
    if (bytes == 0) continue;
    static std::byte nowhere{};  // the same at both ends: nothing is copied
    const std::span block(&nowhere, static_cast<std::size_t>(bytes));
    moving.transfers.push_back(down ? link_->down(block, block, tile.unit) : link_->up(block, block, tile.unit));
  }
}

void TileStream::start(MovingTile& moving) {
  moving.started = true;
  Tile& tile = moving.tile;
  cross(moving, /*down=*/true);
  const bool host = on_host(tile.unit, tile.begin);
  tile.on_host = host || device_.host_readable();
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const StateArray& array = *arrays_[i].array;
    const TileAccess access = arrays_[i].access;
    if (!array.has(tile.unit)) continue;
    std::byte* held = array.memory(tile.unit, tile.begin);
    const Way way = this->way(arrays_[i], tile.unit, tile.begin, host);
    tile.data[i] = held;
    if (way == Way::kDirect) continue;
    moving.staged[i] = tile.data[i] = staging_.acquire(array.bytes_of(tile.unit, kTileNumel), 0);
    if (access == TileAccess::kWrite || access == TileAccess::kSend) continue;
    const auto bytes = static_cast<std::size_t>(array.bytes_of(tile.unit, tile.numel));
    const bool up = access == TileAccess::kBring;
    if (way == Way::kDisk) {
      note_host_access(writes(std::span(tile.data[i], padded_bytes(tile, array))), "a tile is read from the disk");
      Transfer read =
          disk_->read(array.disk_offset(tile.unit, tile.begin), {tile.data[i], padded_bytes(tile, array)}, tile.unit);
      if (link_ != nullptr && up && device_.host_readable()) {  // the block is both ends of the link
        read = chain(std::move(read), [link = link_, block = std::span(tile.data[i], bytes), unit = tile.unit] {
          return link->up(block, block, unit);
        });
      }
      moving.transfers.push_back(std::move(read));
    } else {
      moving.transfers.push_back(up ? link_->up({tile.data[i], bytes}, {held, bytes}, tile.unit)
                                    : link_->down({tile.data[i], bytes}, {held, bytes}, tile.unit));
    }
  }
}

void TileStream::read_ahead() {
  const std::size_t ahead = std::min(reads_ ? depth_ : 1, waiting_.size());
  for (std::size_t i = 0; i < ahead; ++i) {
    if (!waiting_[i].started) start(waiting_[i]);
  }
}

// Polls the transfers: done() begins the second leg of a transfer, from disk to link or from link to disk.
void TileStream::begin_second_legs() {
  if (link_ == nullptr || disk_ == nullptr) return;
  for (const std::deque<MovingTile>* tiles : {&current_, &waiting_, &writing_}) {
    for (const MovingTile& moving : *tiles) {
      for (const Transfer& transfer : moving.transfers) static_cast<void>(transfer.done());
    }
  }
}

const Tile* TileStream::next() {
  put_back();
  if (waiting_.empty()) return nullptr;
  read_ahead();
  current_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  read_ahead();
  begin_second_legs();
  try {
    for (Transfer& read : current_.front().transfers) read.wait();
  } catch (...) {
    // Never computed, so never written back.
    writing_.push_back(std::move(current_.front()));
    current_.pop_front();
    throw;
  }
  current_.front().transfers.clear();
  note_tile_access(current_.front().tile);
  return &current_.front().tile;
}

void TileStream::note_host_access(const Access& access, std::string_view who) const {
  if (!device_.host_readable()) device_.host_touches({&access, 1}, who);
}

void TileStream::note_tile_access(const Tile& tile) const {
  if (device_.host_readable() || !tile.on_host) return;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const TileAccess access = arrays_[i].access;
    if (tile.data[i] == nullptr || access == TileAccess::kBring || access == TileAccess::kSend) continue;
    const std::span bytes(tile.data[i], static_cast<std::size_t>(arrays_[i].array->bytes_of(tile.unit, tile.numel)));
    note_host_access({bytes, access != TileAccess::kWrite, access != TileAccess::kRead}, "a tile on the host");
  }
}

bool TileStream::ready() {
  const auto done = [](const Transfer& transfer) { return transfer.done(); };
  if (waiting_.empty() || !waiting_.front().started || !std::ranges::all_of(waiting_.front().transfers, done))
    return false;
  retire_done();
  return current_.size() + writing_.size() < depth_;
}

void TileStream::put_back() {
  if (current_.empty()) return;
  MovingTile moving = std::move(current_.front());
  current_.pop_front();
  const Tile& tile = moving.tile;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const TileAccess access = arrays_[i].access;
    const StateArray& array = *arrays_[i].array;
    const bool down = access == TileAccess::kSend;
    const bool sent = down && !device_.host_readable() && tile.data[i] != nullptr;
    if (access == TileAccess::kRead || access == TileAccess::kBring) continue;
    if (moving.staged[i] == nullptr && !sent) continue;
    std::byte* held = array.memory(tile.unit, tile.begin);
    const auto bytes = static_cast<std::size_t>(array.bytes_of(tile.unit, tile.numel));
    if (moving.staged[i] == nullptr) {  // its copy is in kDown, and the transfer has its mark
      moving.transfers.push_back(link_->down({held, bytes}, {held, bytes}, tile.unit));
      continue;
    }
    if (held == nullptr) {
      const auto write = [this, place = array.disk_offset(tile.unit, tile.begin),
                          block = std::span(moving.staged[i], padded_bytes(tile, array)), unit = tile.unit] {
        note_host_access(reads(block), "a tile is written to the disk");
        return disk_->write(place, block, unit);
      };
      if (link_ != nullptr && down) {
        const std::span<std::byte> block(moving.staged[i], bytes);
        moving.transfers.push_back(chain(link_->down(block, block, tile.unit), write));
      } else {
        moving.transfers.push_back(write());
      }
      continue;
    }
    if (for_the_host_) follow(device_, Lane::kUp, Lane::kCompute);
    moving.transfers.push_back(down ? link_->down({held, bytes}, {moving.staged[i], bytes}, tile.unit)
                                    : link_->up({held, bytes}, {moving.staged[i], bytes}, tile.unit));
  }
  cross(moving, /*down=*/false);
  if (moving.transfers.empty()) {
    release(moving);
    return;
  }
  writing_.push_back(std::move(moving));
  begin_second_legs();
  while (writing_.size() > depth_) retire_oldest();
}

void TileStream::release(const MovingTile& moving) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (moving.staged[i] == nullptr) continue;
    const bool brought = arrays_[i].access == TileAccess::kBring;
    staging_.release(moving.staged[i], brought ? used_in(device_, Lane::kUp) : LastUse{});
  }
}

bool TileStream::settled(int unit) {
  retire_done();
  const auto of_unit = [unit](const MovingTile& moving) { return moving.tile.unit == unit; };
  return std::ranges::none_of(current_, of_unit) && std::ranges::none_of(writing_, of_unit);
}

std::int64_t TileStream::copy_unsettled(int unit, std::size_t array, std::byte* into) {
  put_back();
  retire_done();
  std::int64_t num_settled = next_unit() == unit ? next_begin() : arrays_[array].array->split(unit).numel();
  for (const MovingTile& moving : writing_) {
    const Tile& tile = moving.tile;
    if (tile.unit != unit) continue;
    num_settled = std::min(num_settled, tile.begin);
    const std::int64_t size = arrays_[array].array->element_bytes(unit);
    const auto bytes = static_cast<std::size_t>(tile.numel * size);
    device_.copy(Lane::kUpdate, {into + tile.begin * size, bytes}, {tile.data[array], bytes});
  }
  return num_settled;
}

void TileStream::flush(int unit) {
  put_back();
  while (!settled(unit)) retire_oldest();
}

bool TileStream::idle() {
  retire_done();
  return waiting_.empty() && current_.empty() && writing_.empty();
}

void TileStream::retire_done() {
  begin_second_legs();
  const auto done = [](const Transfer& transfer) { return transfer.done(); };
  while (!writing_.empty() && std::ranges::all_of(writing_.front().transfers, done)) retire_oldest();
}

void TileStream::retire_oldest() {
  MovingTile oldest = std::move(writing_.front());
  writing_.pop_front();
  for (Transfer& write : oldest.transfers) write.wait();
  release(oldest);
}

void TileStream::finish() {
  put_back();
  // Drops the data that was read for tiles that the caller did not take.
  while (!waiting_.empty()) {
    MovingTile moving = std::move(waiting_.front());
    waiting_.pop_front();
    writing_.push_back(std::move(moving));
  }
  while (!writing_.empty()) retire_oldest();
}

}  // namespace zero
