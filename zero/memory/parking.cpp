#include "zero/memory/parking.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/base/check.h"
#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/memory/block_cutter.h"
#include "zero/memory/host_memory.h"

namespace zero {
namespace {

std::int64_t whole_pages(std::int64_t bytes) {
  return (bytes + DiskTier::kPageBytes - 1) / DiskTier::kPageBytes * DiskTier::kPageBytes;
}

std::span<std::byte> span_of(std::byte* data, std::int64_t bytes) {
  return {data, static_cast<std::size_t>(bytes)};
}

std::optional<DiskPlaces> make_places(const ParkingOptions& options, Ledger& ledger, DiskSeam seam) {
  if (options.tier != Tier::kDisk) return std::nullopt;
  if (options.disk.empty())
    throw ConfigError("zero.disk", "[]", "activations are parked on disk, and no folder is named",
                      "name one a disk: zero.disk = [\"/path\"]");
  return std::make_optional<DiskPlaces>(DiskOptions{.paths = options.disk, .checksums = options.checksums}, ledger,
                                        MemoryTag::kActivation, std::move(seam), options.most_bytes);
}

}  // namespace

ParkingNeed parking_need(const ParkingOptions& options, std::int64_t count, std::int64_t bytes) {
  const std::int64_t blocks = std::min(count, static_cast<std::int64_t>(Parking::kBlocks)) * whole_pages(bytes);
  if (options.tier == Tier::kDisk) return {.host = blocks, .disk = count * whole_pages(bytes)};
  return {.device = options.link_bytes_per_second > 0 ? blocks : 0, .host = count * bytes};
}

// What is near on its way from the host is on the device; on its way from the disk, on the host.
Parking::Parking(ParkingOptions options, Ledger& ledger, DiskSeam seam)
    : ledger_(ledger),
      most_bytes_(options.most_bytes),
      expected_bytes_(options.expected_bytes),
      homes_(allocate_host, ledger, MemoryTag::kActivation, Tier::kHost),
      blocks_(BlockCutter(allocate_host), ledger, MemoryTag::kStaging,
              options.tier == Tier::kDisk ? Tier::kHost : Tier::kDevice),
      places_(make_places(options, ledger, std::move(seam))),
      link_(options.link_bytes_per_second > 0 ? std::make_unique<Link>(options.link_bytes_per_second) : nullptr) {
  ZERO_CHECK(options.tier != Tier::kDevice, "parked where it was");
}

template <typename Body>
auto Parking::fatal_if_io_fails(Body body) {
  if (failed_ != nullptr) std::rethrow_exception(failed_);
  try {
    return body();
  } catch (const IoError&) {
    failed_ = std::current_exception();
    throw;
  }
}

void Parking::open() {
  if (places_) places_->open(expected_bytes_);
}

void Parking::record(Timeline* timeline) {
  if (places_) places_->record(timeline);
}

void Parking::share_link(const Link& link) {
  if (link_ != nullptr) link_->share(link);
}

Parking::Ticket Parking::park(std::span<const std::byte> bytes) {
  ZERO_CHECK(!bytes.empty(), "nothing to park");
  return fatal_if_io_fails([&] {
    Parked parked{.bytes = static_cast<std::int64_t>(bytes.size())};
    on_disk() ? write(parked, bytes) : copy_to_host(parked, bytes);
    if (parked.block != nullptr) near_.push_back(next_);
    bytes_ += parked.bytes;
    peak_bytes_ = std::max(peak_bytes_, bytes_);
    parked_.emplace(next_, std::move(parked));
    return next_++;
  });
}

void Parking::require_room_on_host(std::int64_t bytes) const {
  if (most_bytes_ == 0 || bytes_ + bytes <= most_bytes_) return;
  throw ConfigError("zero.host_memory", format_bytes(most_bytes_),
                    fmt::format("{} of it hold parked activations, and {} B more ({}) are to be parked",
                                format_bytes(bytes_), bytes, format_bytes(bytes)),
                    "allow more; smaller or fewer activations need less");
}

// The pool keeps what was in use at once and no more, so that another size lets go of memory that nobody needs.
void Parking::copy_to_host(Parked& parked, std::span<const std::byte> from) {
  require_room_on_host(parked.bytes);
  parked.home = homes_.acquire(parked.bytes, std::max(peak_bytes_, bytes_ + parked.bytes));
  // The device's memory would be in use until it has crossed: as many are under way as there are blocks.
  const auto earlier = parked_.find(next_ - static_cast<Ticket>(kBlocks));
  if (earlier != parked_.end()) earlier->second.crossing.wait();
  copy_down(parked, parked.home, from);
}

void Parking::write(Parked& parked, std::span<const std::byte> from) {
  make_room();
  parked.place = places_->take(parked.bytes);
  const std::int64_t bytes = whole_pages(parked.bytes);
  parked.block = blocks_.acquire(bytes, 0);
  copy_down(parked, parked.block, from);
  parked.moving = parked.place.tier->write(parked.place.offset, span_of(parked.block, bytes));
}

void Parking::copy_down(Parked& parked, std::byte* to, std::span<const std::byte> from) {
  if (link_ != nullptr) {
    parked.crossing = link_->down(span_of(to, parked.bytes), from);
  } else {
    std::memcpy(to, from.data(), from.size());
  }
}

void Parking::bring(Ticket ticket, std::span<std::byte> into) {
  fatal_if_io_fails([&] {
    const auto found = parked_.find(ticket);
    ZERO_CHECK(found != parked_.end(), "nothing is parked as {}", ticket);
    Parked& parked = found->second;
    const auto bytes = static_cast<std::int64_t>(into.size());
    ZERO_CHECK(bytes == parked.bytes, "{} bytes were parked, and {} are asked for", parked.bytes, bytes);
    if (!on_disk() && link_ == nullptr) {
      std::memcpy(into.data(), parked.home, into.size());
      return;
    }
    if (parked.block == nullptr) fetch(ticket, parked);
    parked.crossing.wait();
    // A block that is being written has the bytes; one that is being filled will.
    if (parked.arriving) parked.moving.wait();
    parked.arriving = false;
    const bool crosses_now = on_disk() && link_ != nullptr;
    Transfer up;
    if (crosses_now) {
      up = link_->up(into, span_of(parked.block, bytes));
    } else {
      std::memcpy(into.data(), parked.block, into.size());
    }
    std::erase(near_, ticket);
    near_.push_front(ticket);
    fetch_before(ticket);
    up.wait();
  });
}

void Parking::fetch_before(Ticket ticket) {
  auto earlier = parked_.find(ticket);
  for (int i = 0; i < kAhead && earlier != parked_.begin(); ++i) {
    --earlier;
    Parked& parked = earlier->second;
    // What is still on its way down would be waited for.
    if (parked.block == nullptr && parked.crossing.done()) fetch(earlier->first, parked);
  }
}

void Parking::fetch(Ticket ticket, Parked& parked) {
  make_room();
  parked.crossing.wait();
  const std::int64_t bytes = whole_pages(parked.bytes);
  parked.block = blocks_.acquire(bytes, 0);
  near_.push_back(ticket);
  parked.arriving = true;
  parked.moving = on_disk() ? parked.place.tier->read(parked.place.offset, span_of(parked.block, bytes))
                            : link_->up(span_of(parked.block, parked.bytes), span_of(parked.home, parked.bytes));
}

// For one more block.
void Parking::make_room() {
  while (near_.size() >= kBlocks) {
    Parked& oldest = parked_.at(near_.front());
    oldest.moving.wait();
    near_.pop_front();
    oldest.arriving = false;
    blocks_.release(std::exchange(oldest.block, nullptr));
  }
}

void Parking::forget(Ticket ticket) {
  const auto found = parked_.find(ticket);
  ZERO_CHECK(found != parked_.end(), "nothing is parked as {}", ticket);
  Parked parked = std::move(found->second);
  parked_.erase(found);
  std::erase(near_, ticket);
  bytes_ -= parked.bytes;
  try {
    parked.moving.wait();
    parked.crossing.wait();
  } catch (const IoError& error) {
    ZERO_LOG(error, "a parked activation that nobody needs any more: {}", error.what());
    if (failed_ == nullptr) failed_ = std::current_exception();
  }
  // The disk may still use the block of a request that it never answered (io_queue.h), and the place.
  if (failed_ != nullptr) return;
  if (parked.block != nullptr) blocks_.release(parked.block);
  if (parked.home != nullptr) homes_.release(parked.home);
  if (parked.place.tier != nullptr) places_->give_back(parked.place);
}

ParkingReport Parking::report() const {
  ParkingReport report{.bytes = bytes_, .peak_bytes = peak_bytes_};
  if (places_) {
    report.disk = places_->traffic();
    report.disk_kind = places_->describe();
  }
  if (link_ != nullptr) report.link = link_->traffic();
  return report;
}

}  // namespace zero
