#include "app/cli/bench/parts/device_copies.h"

#include <string_view>

#include "zero/base/error/check.h"
#include "zero/memory/io/transfer.h"

#include "app/cli/bench/parts/disk_probe.h"

namespace zero::cli {
namespace {

std::span<std::byte> tile_at(const Allocation& memory, std::int64_t at) {
  return memory.bytes().subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(DeviceCopies::kTileBytes));
}

}  // namespace

DeviceCopies::DeviceCopies(Device& device, DiskTier& disk, std::int64_t bytes, int depth)
    : device_(device),
      disk_(disk),
      bytes_(bytes),
      depth_(depth),
      place_(disk.reserve(bytes)),
      sent_(device.allocate_pinned(static_cast<std::size_t>(bytes))),
      there_(device.allocate(static_cast<std::size_t>(bytes))),
      back_(device.allocate(static_cast<std::size_t>(bytes))),
      received_(device.allocate_pinned(static_cast<std::size_t>(bytes))),
      blocks_(device.allocate_pinned(static_cast<std::size_t>(depth * kTileBytes))),
      link_(device, {.up = {Lane::kUpdate}, .down = {Lane::kUp, Lane::kUpdate}}) {  // as in engine_parts.cpp
  ZERO_CHECK(bytes > 0 && bytes % kTileBytes == 0 && depth > 0, "{} bytes, depth {}", bytes, depth);
  host_touches(writes(sent_.bytes()), "what a benchmark sends");
  fill_randomly(sent_.bytes());
}

void DeviceCopies::host_touches(const Access& access, std::string_view who) {
  device_.host_touches({&access, 1}, who);
}

std::span<std::byte> DeviceCopies::block_of(std::int64_t at) const {
  return tile_at(blocks_, at / kTileBytes % depth_ * kTileBytes);
}

void DeviceCopies::for_each_tile(const Begin& begin) {
  std::vector<Transfer> under_way(static_cast<std::size_t>(depth_));
  for (std::int64_t at = 0; at < bytes_; at += kTileBytes) {
    Transfer& transfer = under_way[static_cast<std::size_t>(at / kTileBytes % depth_)];
    transfer.wait();
    transfer = begin(at);
    for (const Transfer& each : under_way)
      static_cast<void>(each.done());  // done() starts the second transfer of a chain
  }
  for (Transfer& transfer : under_way) transfer.wait();
}

void DeviceCopies::up() {
  for_each_tile([this](std::int64_t at) { return link_.up(tile_at(there_, at), tile_at(sent_, at)); });
}

void DeviceCopies::down() {
  for_each_tile([this](std::int64_t at) { return link_.down(tile_at(received_, at), tile_at(back_, at)); });
}

void DeviceCopies::both() {
  for_each_tile([this](std::int64_t at) {
    Transfer up = link_.up(tile_at(there_, at), tile_at(sent_, at));
    Transfer down = link_.down(tile_at(received_, at), tile_at(back_, at));
    return chain(std::move(up), [down = std::make_shared<Transfer>(std::move(down))] { return std::move(*down); });
  });
}

void DeviceCopies::to_disk() {
  for_each_tile([this](std::int64_t at) {
    const std::span<std::byte> block = block_of(at);
    return chain(link_.down(block, tile_at(there_, at)), [this, block, at] {
      host_touches(reads(block), "a tile goes to the disk");
      return disk_.write(place_ + at, block);
    });
  });
}

void DeviceCopies::from_disk() {
  for_each_tile([this](std::int64_t at) {
    const std::span<std::byte> block = block_of(at);
    host_touches(writes(block), "a tile comes from the disk");
    return chain(disk_.read(place_ + at, block), [this, block, at] { return link_.up(tile_at(back_, at), block); });
  });
}

void DeviceCopies::bare_up() {
  device_.copy(Lane::kUp, there_.bytes(), sent_.bytes());
  device_.join(device_.mark(Lane::kUp));
}

void DeviceCopies::bare_down() {
  device_.copy(Lane::kDown, received_.bytes(), back_.bytes());
  device_.join(device_.mark(Lane::kDown));
}

void DeviceCopies::bare_both() {
  device_.copy(Lane::kUp, there_.bytes(), sent_.bytes());
  device_.copy(Lane::kDown, received_.bytes(), back_.bytes());
  device_.join(device_.mark(Lane::kUp));
  device_.join(device_.mark(Lane::kDown));
}

}  // namespace zero::cli
