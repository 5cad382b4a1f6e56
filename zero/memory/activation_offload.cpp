#include "zero/memory/activation_offload.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/numbers/number_range.h"
#include "zero/base/text/bytes.h"
#include "zero/device/host_device.h"
#include "zero/memory/disk/block_cutter.h"
#include "zero/memory/io/transfer.h"
#include "zero/memory/link/lane_link.h"
#include "zero/memory/link/paced_link.h"

namespace zero {
namespace {

std::int64_t whole_pages(std::int64_t bytes) {
  return (bytes + DiskTier::kPageBytes - 1) / DiskTier::kPageBytes * DiskTier::kPageBytes;
}

std::span<std::byte> span_of(std::byte* data, std::int64_t bytes) {
  return {data, static_cast<std::size_t>(bytes)};
}

void require_numbers(const ActivationOffloadOptions& options) {
  require_number("zero.link_bandwidth", options.link_bytes_per_second, kAtLeastZero,
                 "use bytes a second, or 0 for no link");
  require_number("most_bytes", static_cast<double>(options.most_bytes), kAtLeastZero, "use bytes, or 0 for no limit");
  require_number("expected_bytes", static_cast<double>(options.expected_bytes), kAtLeastZero,
                 "use bytes, or 0 if they are not known");
}

std::optional<DiskPlaces> make_places(const ActivationOffloadOptions& options, Ledger& ledger, DiskSeam seam) {
  require_numbers(options);
  if (options.tier != Tier::kDisk) return std::nullopt;
  if (options.disk.empty())
    throw ConfigError("zero.disk", "[]", "activations are offloaded to disk, and no folder is set",
                      "set zero.disk = [\"/path\"], with a folder on each disk");
  return std::make_optional<DiskPlaces>(DiskOptions{.paths = options.disk, .checksums = options.checksums}, ledger,
                                        MemoryTag::kActivation, std::move(seam), options.most_bytes);
}

BlockPool::Allocator memory_of(Device& device, Tier tier) {
  return [&device, tier](std::size_t bytes) {
    return tier == Tier::kDevice ? device.allocate(bytes) : device.allocate_pinned(bytes);
  };
}

}  // namespace

ActivationOffloadNeed activation_offload_need(const ActivationOffloadOptions& options, std::int64_t count,
                                              std::int64_t bytes) {
  const std::int64_t blocks =
      std::min(count, static_cast<std::int64_t>(ActivationOffload::kBlocks)) * whole_pages(bytes);
  if (options.tier == Tier::kDisk)
    return {.device = options.from_device && count > 0 ? whole_pages(bytes) : 0,
            .host = blocks,
            .disk = count * whole_pages(bytes)};
  ActivationOffloadNeed need{.device = options.link_bytes_per_second > 0 || options.from_device ? blocks : 0};
  need[options.tier] = count * bytes;
  return need;
}

// blocks_ has the staged copies: on the device if activations return from the host, on the host if they return from
// disk.
ActivationOffload::ActivationOffload(ActivationOffloadOptions options, Ledger& ledger, DiskSeam seam)
    : ledger_(ledger),
      device_(&HostDevice::instance()),
      most_bytes_(options.most_bytes),
      expected_bytes_(options.expected_bytes),
      tier_(options.tier),
      homes_(memory_of(*device_, tier_), ledger, MemoryTag::kActivation, tier_),
      blocks_(BlockCutter(memory_of(*device_, Tier::kHost)), ledger, MemoryTag::kStaging,
              options.tier == Tier::kDisk ? Tier::kHost : Tier::kDevice),
      stages_(memory_of(*device_, Tier::kDevice), ledger, MemoryTag::kStaging),
      places_(make_places(options, ledger, std::move(seam))),
      link_(options.link_bytes_per_second > 0 ? std::make_unique<PacedLink>(options.link_bytes_per_second) : nullptr) {
  ZERO_CHECK(options.tier != Tier::kDevice, "offloaded where it was");
}

ActivationOffload::~ActivationOffload() {
  if (!device_is_apart()) return;
  try {
    for (const Lane lane : {Lane::kCompute, Lane::kUp, Lane::kDown}) device_->join(device_->mark(lane));
  } catch (const std::exception& error) {
    ZERO_LOG(error, "the device failed while activations were offloaded: {}", error.what());
  }
}

void ActivationOffload::open() {
  if (places_) places_->open(expected_bytes_);
}

void ActivationOffload::record(Timeline* timeline) {
  timeline_ = timeline;
  if (places_) places_->record(timeline);
}

void ActivationOffload::come_from(Device& device) {
  ZERO_CHECK(next_ == 0, "offloaded activations belong to another device");
  if (device.host_readable()) return;
  device_ = &device;
  const auto pool = [&](BlockPool::Allocator allocate, MemoryTag tag, Tier tier) {
    return BlockPool(std::move(allocate), ledger_, tag, tier, {}, device);
  };
  homes_ = pool(memory_of(device, tier_), MemoryTag::kActivation, tier_);
  blocks_ = on_disk() ? pool(BlockCutter(memory_of(device, Tier::kHost)), MemoryTag::kStaging, Tier::kHost)
                      : pool(memory_of(device, Tier::kDevice), MemoryTag::kStaging, Tier::kDevice);
  stages_ = pool(memory_of(device, Tier::kDevice), MemoryTag::kStaging, Tier::kDevice);
  // Each copy names the lanes that it must wait for when it is queued.
  auto link = std::make_unique<LaneLink>(device, LaneLink::Earlier{.up = {}, .down = {}}, timeline_);
  lane_link_ = link.get();
  link_ = std::move(link);
}

void ActivationOffload::share_link(const Link& link) {
  if (link_ != nullptr && !device_is_apart()) link_ = link.beside();
}

ActivationOffload::Handle ActivationOffload::offload(std::span<const std::byte> bytes) {
  ZERO_CHECK(!bytes.empty(), "nothing to offload");
  return io_.run([&] {
    notice_done();
    Offloaded offloaded{.bytes = static_cast<std::int64_t>(bytes.size())};
    on_disk() ? write(offloaded, bytes) : copy_to_host(offloaded, bytes);
    if (offloaded.block != nullptr) near_.push_back(next_);
    bytes_ += offloaded.bytes;
    peak_bytes_ = std::max(peak_bytes_, bytes_);
    offloaded_.emplace(next_, std::move(offloaded));
    return next_++;
  });
}

void ActivationOffload::require_room(std::int64_t bytes) const {
  if (most_bytes_ == 0 || bytes_ + bytes <= most_bytes_) return;
  throw ConfigError(facts_of(tier_).budget, format_bytes(most_bytes_),
                    fmt::format("offloaded activations take {} of it, and {} B more ({}) are needed",
                                format_bytes(bytes_), bytes, format_bytes(bytes)),
                    "allow more, or use smaller or fewer activations");
}

// The pool keeps at most the peak in use, so memory of sizes that are no longer needed is freed.
void ActivationOffload::copy_to_host(Offloaded& offloaded, std::span<const std::byte> from) {
  require_room(offloaded.bytes);
  const std::int64_t limit = std::max(peak_bytes_, bytes_ + offloaded.bytes);
  if (device_is_apart()) {
    make_room();
    offloaded.block = blocks_.acquire(whole_pages(offloaded.bytes), 0, Lane::kCompute);
    offloaded.home = homes_.acquire(offloaded.bytes, limit, Lane::kDown);
    under_way_.push_back(bring_down(offloaded, offloaded.home, offloaded.block, from));
    offloaded.of_home = offloaded.of_block = used_in(*device_, Lane::kDown);
    return;
  }
  offloaded.home = homes_.acquire(offloaded.bytes, limit);
  // The device's memory stays in use until its copy has crossed the link, so at most kBlocks copies are under way.
  const auto earlier = offloaded_.find(next_ - static_cast<Handle>(kBlocks));
  if (earlier != offloaded_.end()) earlier->second.link_transfer.wait();
  copy_down(offloaded, offloaded.home, from);
}

void ActivationOffload::write(Offloaded& offloaded, std::span<const std::byte> from) {
  make_room();
  offloaded.place = places_->take(offloaded.bytes);
  const std::int64_t bytes = whole_pages(offloaded.bytes);
  offloaded.block = blocks_.acquire(bytes, 0);
  const auto write = [this, place = offloaded.place, block = span_of(offloaded.block, bytes)] {
    note_host_access(reads(block), "an activation is written to the disk");
    return place.tier->write(place.offset, block);
  };
  if (device_is_apart()) {
    std::byte* const stage = stages_.acquire(bytes, 0, Lane::kCompute);
    Transfer down = bring_down(offloaded, offloaded.block, stage, from);
    offloaded.of_block = used_in(*device_, Lane::kDown);
    stages_.release(stage, offloaded.of_block);
    offloaded.moving = chain(std::move(down), write);
    return;
  }
  copy_down(offloaded, offloaded.block, from);
  offloaded.moving = write();
}

// Operators may overwrite `from` while the block's copy is under way.
Transfer ActivationOffload::bring_down(Offloaded& offloaded, std::byte* to, std::byte* block,
                                       std::span<const std::byte> from) {
  device_->copy(Lane::kCompute, span_of(block, offloaded.bytes), from);
  follow(*device_, Lane::kDown, Lane::kCompute);
  return link_->down(span_of(to, offloaded.bytes), span_of(block, offloaded.bytes));
}

void ActivationOffload::note_host_access(const Access& access, std::string_view who) {
  if (device_is_apart()) device_->host_touches({&access, 1}, who);
}

// No thread watches lanes: a write to disk begins when the host notices that its bytes have arrived.
void ActivationOffload::notice_done() {
  if (!device_is_apart()) return;
  while (!under_way_.empty() && under_way_.front().done()) under_way_.pop_front();
  lane_link_->read_times();
  if (!on_disk()) return;
  for (const Handle handle : near_) static_cast<void>(offloaded_.at(handle).moving.done());
}

void ActivationOffload::copy_down(Offloaded& offloaded, std::byte* to, std::span<const std::byte> from) {
  if (link_ != nullptr) {
    offloaded.link_transfer = link_->down(span_of(to, offloaded.bytes), from);
  } else {
    device_->copy(Lane::kCompute, span_of(to, offloaded.bytes), from);
  }
}

void ActivationOffload::bring(Handle handle, std::span<std::byte> into) {
  io_.run([&] {
    const auto found = offloaded_.find(handle);
    ZERO_CHECK(found != offloaded_.end(), "nothing is offloaded as {}", handle);
    Offloaded& offloaded = found->second;
    const auto bytes = static_cast<std::int64_t>(into.size());
    ZERO_CHECK(bytes == offloaded.bytes, "{} bytes were offloaded, and {} are requested", offloaded.bytes, bytes);
    if (!on_disk() && link_ == nullptr) {
      device_->copy(Lane::kCompute, into, span_of(offloaded.home, bytes));
      return;
    }
    notice_done();
    if (offloaded.block == nullptr) fetch(handle, offloaded);
    offloaded.link_transfer.wait();
    // A block that is being written has the bytes; a block that is being filled does not have them yet.
    if (offloaded.arriving) offloaded.moving.wait();
    offloaded.arriving = false;
    const bool uses_link_now = on_disk() && link_ != nullptr;
    Transfer up;
    if (device_is_apart()) {
      bring_by_lanes(offloaded, into);
    } else if (uses_link_now) {
      up = link_->up(into, span_of(offloaded.block, bytes));
    } else {
      device_->copy(Lane::kCompute, into, span_of(offloaded.block, bytes));
    }
    std::erase(near_, handle);
    near_.push_front(handle);
    fetch_before(handle);
    up.wait();
  });
}

// A block whose copy to the host is under way counts as used until that copy ends. Then it may be refilled after
// kCompute.
void ActivationOffload::bring_by_lanes(Offloaded& offloaded, std::span<std::byte> into) {
  const std::span<std::byte> block = span_of(offloaded.block, offloaded.bytes);
  if (!on_disk()) {
    lane_link_->compute_after(offloaded.of_block);
    device_->copy(Lane::kCompute, into, block);
    offloaded.of_block = used_in(*device_, Lane::kCompute);
    return;
  }
  follow(*device_, Lane::kUp, offloaded.of_block);
  follow(*device_, Lane::kUp, Lane::kCompute);
  under_way_.push_back(link_->up(into, block));
  offloaded.of_block = used_in(*device_, Lane::kUp);
  lane_link_->compute_after(offloaded.of_block);
}

void ActivationOffload::fetch_before(Handle handle) {
  auto earlier = offloaded_.find(handle);
  for (int i = 0; i < kAhead && earlier != offloaded_.begin(); ++i) {
    --earlier;
    Offloaded& offloaded = earlier->second;
    // Fetching a copy that is still on its way to the host would wait.
    if (offloaded.block == nullptr && offloaded.link_transfer.done()) fetch(earlier->first, offloaded);
  }
}

void ActivationOffload::fetch(Handle handle, Offloaded& offloaded) {
  make_room();
  offloaded.link_transfer.wait();
  const std::int64_t bytes = whole_pages(offloaded.bytes);
  if (device_is_apart() && !on_disk()) {
    offloaded.block = blocks_.acquire(bytes, 0, Lane::kUp);
    near_.push_back(handle);
    follow(*device_, Lane::kUp, offloaded.of_home);
    under_way_.push_back(
        link_->up(span_of(offloaded.block, offloaded.bytes), span_of(offloaded.home, offloaded.bytes)));
    offloaded.of_home = offloaded.of_block = used_in(*device_, Lane::kUp);
    return;
  }
  offloaded.block = blocks_.acquire(bytes, 0);
  offloaded.of_block = {};
  near_.push_back(handle);
  offloaded.arriving = true;
  if (on_disk()) note_host_access(writes(span_of(offloaded.block, bytes)), "an activation is read from the disk");
  offloaded.moving =
      on_disk() ? offloaded.place.tier->read(offloaded.place.offset, span_of(offloaded.block, bytes))
                : link_->up(span_of(offloaded.block, offloaded.bytes), span_of(offloaded.home, offloaded.bytes));
}

// Frees a block if all kBlocks are taken.
void ActivationOffload::make_room() {
  while (near_.size() >= kBlocks) {
    Offloaded& oldest = offloaded_.at(near_.front());
    oldest.moving.wait();
    near_.pop_front();
    oldest.arriving = false;
    blocks_.release(std::exchange(oldest.block, nullptr), oldest.of_block);
  }
}

void ActivationOffload::forget(Handle handle) {
  const auto found = offloaded_.find(handle);
  ZERO_CHECK(found != offloaded_.end(), "nothing is offloaded as {}", handle);
  Offloaded offloaded = std::move(found->second);
  offloaded_.erase(found);
  std::erase(near_, handle);
  bytes_ -= offloaded.bytes;
  const auto wait = [&offloaded] {
    offloaded.moving.wait();
    offloaded.link_transfer.wait();
  };
  try {
    io_.failed() ? wait() : io_.run(wait);
  } catch (const Error& error) {  // also a device's error, because destructors call this
    ZERO_LOG(error, "transfer of an offloaded activation that is no longer needed: {}", error.what());
  }
  // The disk may still use the block and the place of a request that it never answered (io_queue.h).
  if (io_.failed()) return;
  if (offloaded.block != nullptr) blocks_.release(offloaded.block, offloaded.of_block);
  if (offloaded.home != nullptr) homes_.release(offloaded.home, offloaded.of_home);
  if (offloaded.place.tier != nullptr) places_->give_back(offloaded.place);
}

ActivationOffloadReport ActivationOffload::report() const {
  ActivationOffloadReport report{.bytes = bytes_, .peak_bytes = peak_bytes_};
  if (places_) {
    report.disk = places_->traffic();
    report.disk_kind = places_->describe();
  }
  if (link_ != nullptr) report.link = link_->traffic();
  return report;
}

}  // namespace zero
