#include "zero/engine/states/state_array.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <set>

#include "zero/base/error/check.h"
#include "zero/base/process/pages.h"
#include "zero/memory/account/host_memory.h"

namespace zero {
namespace {

constexpr std::int64_t kZeroesBytes = std::int64_t{4} << 20;
constexpr std::int64_t kMoveBytes = std::int64_t{2} << 20;  // of one disk request
constexpr std::size_t kMovesInFlight = 8;

std::int64_t whole_pages(std::int64_t bytes) {
  return (bytes + kDiskPageBytes - 1) / kDiskPageBytes * kDiskPageBytes;
}

std::int64_t bytes_of(const PlacedPiece& placed) {
  return placed.array->bytes(placed.piece);
}

class Room {
 public:
  // A tier has room for the larger of its bytes before and after the move.
  explicit Room(const std::vector<PlacedPiece>& pieces) {
    for (const PlacedPiece& placed : pieces) {
      of(placed.piece.to) += bytes_of(placed);
      of(placed.piece.from) -= bytes_of(placed);
    }
    for (const Tier tier : kAllTiers) of(tier) = std::max<std::int64_t>(of(tier), 0);
  }
  bool holds(const PlacedPiece& placed) const {
    const Tier to = placed.piece.to;
    return to == kLastTier || bytes_of(placed) <= bytes_[to];
  }
  void move(PlacedPiece& placed, Tier to) {
    of(placed.piece.from) += bytes_of(placed);
    of(to) -= bytes_of(placed);
    placed.array->move(placed.piece, to);
  }

 private:
  std::int64_t& of(Tier tier) { return bytes_[tier]; }
  PerTier<std::int64_t> bytes_;
};

}  // namespace

StateArray::StateArray(ArrayLayout layout, MemoryTag tag, const Tiers& tiers, const Allocator& allocate_device)
    : layout_(std::move(layout)), device_(tiers.device), disk_(tiers.disk), movable_(tiers.movable) {
  ZERO_CHECK(!movable_ || disk_ != nullptr, "a movable state needs a tier to move to");
  ZERO_CHECK(!movable_ || device_->host_readable(), "a movable state on a device that cannot release memory");
  PerTier<std::int64_t> held, taken;
  for (std::size_t unit = 0; unit < layout_.splits.size(); ++unit) {
    const std::int64_t size = layout_.element_bytes[unit];
    if (size == 0) layout_.splits[unit] = {};
    const TierSplit& split = layout_.splits[unit];
    const TierSplit values = layout_.block == 1 ? split : TierSplit{.device = split.device / layout_.block};
    ZERO_CHECK(layout_.block == 1 || (split.on_device() && split.device % layout_.block == 0 && !movable_),
               "{} elements in blocks of {} off the device", split.numel(), layout_.block);
    for (const Tier tier : kAllTiers) {
      const std::int64_t bytes = tier_bytes(values, tier, size);
      const std::int64_t place = movable_ ? whole_pages(split.numel() * size) : bytes;
      ZERO_CHECK(is_memory(tier) || bytes == 0 || disk_ != nullptr, "a state is on disk, and there is no disk tier");
      if (is_memory(tier)) {
        offsets_[tier].push_back(taken[tier]);
      } else {
        offsets_[tier].push_back(place > 0 ? disk_->reserve(place) : 0);
      }
      held[tier] += bytes;
      taken[tier] += place;
    }
    // Parameters and masters are loaded before their first read.
    if (split.disk > 0 && (tag == MemoryTag::kMoment || tag == MemoryTag::kGradient))
      zero_disk(unit, disk_place(unit, split.begin(Tier::kDisk)), tier_bytes(split, Tier::kDisk, size));
  }
  memory_.device = allocate_device(static_cast<std::size_t>(taken.device));
  for (const Tier tier : kLowerTiers) {
    if (!is_memory(tier)) continue;
    const auto bytes = static_cast<std::size_t>(taken[tier]);
    memory_[tier] = tiers.crosses ? tiers.device->allocate_pinned(bytes) : allocate_host(bytes);
  }
  for (const Tier tier : kAllTiers) charges_[tier] = Charge(tiers.ledger, tier, tag, held[tier]);
}

// Writes zeros instead of assuming them: a range without a checksum could not be verified when it is read.
void StateArray::zero_disk(std::size_t unit, std::int64_t offset, std::int64_t bytes) const {
  const Allocation zeroes = allocate_host(static_cast<std::size_t>(std::min(bytes, kZeroesBytes)));
  std::vector<Transfer> writes;
  for (std::int64_t at = 0; at < bytes; at += kZeroesBytes) {
    const auto size = static_cast<std::size_t>(std::min(kZeroesBytes, bytes - at));
    writes.push_back(disk_->write(offset + at, zeroes.bytes().first(size), static_cast<int>(unit)));
  }
  for (Transfer& write : writes) write.wait();
}

std::byte* StateArray::on_device(int unit) const {
  return has(unit) && split(unit).on_device() ? memory(unit, 0) : nullptr;
}

std::byte* StateArray::memory(int unit, std::int64_t element) const {
  const Tier tier = split(unit).tier_of(element);
  return is_memory(tier) ? place(static_cast<std::size_t>(unit), tier, element) : nullptr;
}

std::int64_t StateArray::disk_offset(int unit, std::int64_t element) const {
  const std::int64_t first = split(unit).begin(Tier::kDisk);
  ZERO_CHECK(split(unit).disk > 0 && element >= first, "element {} of unit {} is not on disk", element, unit);
  return disk_place(static_cast<std::size_t>(unit), element);
}

std::byte* StateArray::place(std::size_t unit, Tier tier, std::int64_t element) const {
  const std::int64_t first = movable_ ? 0 : layout_.splits[unit].begin(tier);
  return memory_[tier].data() + offsets_[tier][unit] + bytes_of(static_cast<int>(unit), element - first);
}

std::int64_t StateArray::disk_place(std::size_t unit, std::int64_t element) const {
  const std::int64_t first = movable_ ? 0 : layout_.splits[unit].begin(Tier::kDisk);
  return offsets_[Tier::kDisk][unit] + (element - first) * layout_.element_bytes[unit];
}

std::vector<StatePiece> StateArray::pieces_to(const std::vector<TierSplit>& splits) const {
  ZERO_CHECK(movable_ && splits.size() == layout_.splits.size(), "a state that is not movable");
  std::vector<StatePiece> pieces;
  for (std::size_t unit = 0; unit < splits.size(); ++unit) {
    const std::int64_t size = layout_.element_bytes[unit];
    if (size == 0) continue;
    const TierSplit& now = layout_.splits[unit];
    const TierSplit& then = splits[unit];
    ZERO_CHECK(now.numel() == then.numel(), "a state of {} elements on the tiers of {}", now.numel(), then.numel());
    std::set<std::int64_t> cuts{0, now.numel()};
    for (const TierSplit& split : {now, then})
      for (const Tier tier : kLowerTiers) cuts.insert(split.begin(tier));
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
      const Tier from = now.tier_of(*cut), to = then.tier_of(*cut);
      for (std::int64_t at = *cut; from != to && at < *std::next(cut); at += kMostPieceBytes / size)
        pieces.push_back({unit, at, std::min(*std::next(cut) - at, kMostPieceBytes / size), from, to});
    }
  }
  return pieces;
}

void StateArray::settle(const std::vector<TierSplit>& splits) {
  layout_.splits = splits;
  for (std::size_t unit = 0; unit < splits.size(); ++unit) {
    if (layout_.element_bytes[unit] == 0) layout_.splits[unit] = {};
  }
}

void StateArray::move(StatePiece& piece, Tier to) {
  const std::int64_t bytes = this->bytes(piece);
  if (!is_memory(piece.from) || !is_memory(to)) {
    copy_by_disk(piece, to);
  } else {
    const Lane lane = to == Tier::kDevice ? Lane::kUp : Lane::kDown;
    const auto size = static_cast<std::size_t>(bytes);
    device_->copy(lane, {place(piece.unit, to, piece.begin), size}, {place(piece.unit, piece.from, piece.begin), size});
    device_->join(device_->mark(lane));
  }
  if (is_memory(piece.from))
    drop_pages({place(piece.unit, piece.from, piece.begin), static_cast<std::size_t>(whole_pages(bytes))});
  const auto charge = [&](Tier tier, int sign) {
    Charge& held = charges_[tier];
    held.resize(held.bytes() + sign * (is_memory(tier) ? bytes : whole_pages(bytes)));
  };
  charge(piece.from, -1);
  charge(to, 1);
  piece.from = to;
}

// Uses requests of whole pages: tiers meet at page bounds, and the memory of a unit's last elements ends at a page.
void StateArray::copy_by_disk(const StatePiece& piece, Tier to) {
  const std::int64_t bytes = whole_pages(this->bytes(piece));
  const bool writes = !is_memory(to);
  const int unit = static_cast<int>(piece.unit);
  const std::span<std::byte> memory(place(piece.unit, writes ? piece.from : to, piece.begin),
                                    static_cast<std::size_t>(bytes));
  const std::int64_t offset = disk_place(piece.unit, piece.begin);
  std::deque<Transfer> moves;
  std::exception_ptr failed;  // the other requests still use the memory
  const auto wait_oldest = [&] {
    try {
      moves.front().wait();
    } catch (...) {
      failed = std::current_exception();
    }
    moves.pop_front();
  };
  for (std::int64_t at = 0; at < bytes && failed == nullptr; at += kMoveBytes) {
    const auto part =
        memory.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(std::min(kMoveBytes, bytes - at)));
    moves.push_back(writes ? disk_->write(offset + at, part, unit) : disk_->read(offset + at, part, unit));
    if (moves.size() == kMovesInFlight) wait_oldest();
  }
  while (!moves.empty()) wait_oldest();
  if (failed != nullptr) std::rethrow_exception(failed);
}

std::int64_t move_pieces(std::vector<PlacedPiece> pieces) {
  Room room(pieces);
  std::int64_t moved = 0;
  for (const PlacedPiece& placed : pieces) moved += bytes_of(placed);
  std::ranges::stable_partition(pieces, [](const PlacedPiece& placed) { return placed.piece.to == kLastTier; });
  while (!pieces.empty()) {
    std::vector<PlacedPiece> rest;
    for (PlacedPiece& placed : pieces) room.holds(placed) ? room.move(placed, placed.piece.to) : rest.push_back(placed);
    const bool stuck = rest.size() == pieces.size();
    pieces = std::move(rest);
    if (!stuck) continue;
    const auto waits = std::ranges::find_if(pieces, [](const auto& each) { return each.piece.from != kLastTier; });
    ZERO_CHECK(waits != pieces.end(), "states that should fit do not fit");
    room.move(*waits, kLastTier);
  }
  return moved;
}

}  // namespace zero
