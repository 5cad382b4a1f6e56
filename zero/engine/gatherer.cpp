#include "zero/engine/gatherer.h"

#include <algorithm>
#include <optional>

#include "zero/base/check.h"
#include "zero/memory/host_memory.h"
#include "zero/plan/schedule.h"

namespace zero {
namespace {

bool brings_shards(const ShardedState& state) {
  return !std::ranges::all_of(state.units(),
                              [&](const Unit& unit) { return state.arrays().parameter.split(unit.index).on_device(); });
}

// Shards that are brought into gathered blocks are read there by peers.
BlockPool::Allocator allocator(Communicator& comm, bool peers_read) {
  if (!peers_read) return allocate_host;
  return [&comm](std::size_t bytes) { return comm.allocate(bytes); };
}

}  // namespace

Gatherer::Gatherer(ShardedState& state, Communicator& comm, Ledger& ledger, UnitObserver& observer, Timeline* timeline)
    : state_(state),
      comm_(comm),
      ledger_(ledger),
      observer_(observer),
      timeline_(timeline),
      timer_([&state] { return state.streams().waited_seconds(); }),
      spans_(state.units().size()),
      brings_shards_(brings_shards(state)),
      pool_(allocator(comm, brings_shards_), ledger, MemoryTag::kGathered),
      resident_(state.units(), comm.world()),
      pending_(state.units().size()),
      ready_(state.units().size(), false),
      written_(state.units().size(), false),
      data_(state.units().size(), nullptr),
      pins_(state.units().size(), 0),
      last_use_(state.units().size(), 0) {
  if (state.placement().parameter_sharded) return;
  for (const Unit& unit : state.units()) {
    const auto index = static_cast<std::size_t>(unit.index);
    data_[index] = state.whole_parameter(unit.index);
    ready_[index] = true;
    observer_.bind(unit.index, data_[index]);
  }
}

void Gatherer::placement_changed() {
  if (!state_.placement().parameter_sharded || brings_shards_ == brings_shards(state_)) return;
  ZERO_CHECK(resident_.units().empty(), "{} units are gathered while states move", resident_.units().size());
  brings_shards_ = !brings_shards_;
  pool_ = BlockPool(allocator(comm_, brings_shards_), ledger_, MemoryTag::kGathered);
}

std::byte* Gatherer::acquire(std::int64_t bytes) {
  // Peers may still be reading what an idle block held: a gradient, or this rank's shard of another unit.
  if (borrowed_ != nullptr || brings_shards_) comm_.drain();
  return pool().acquire(bytes, capacity_bytes_, MemoryTag::kGathered);
}

void Gatherer::fetch(int unit) {
  if (!brings_shards_) return;
  wanted_.push_back(unit);
  begin_prefetches();
}

// In their order: one that is still gathered, on its way for an earlier gather, or to be updated keeps those after it
// waiting.
void Gatherer::begin_prefetches() {
  while (!wanted_.empty() && !resident_.holds(wanted_.front()) && updates_.current(wanted_.front()) &&
         state_.streams().begin_prefetch(wanted_.front()))
    wanted_.pop_front();
}

void Gatherer::cancel_prefetches() {
  wanted_.clear();
  state_.streams().cancel_prefetches();
}

void Gatherer::begin(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  if (!state_.placement().parameter_sharded || resident_.holds(unit)) return;
  const std::int64_t bytes = resident_.bytes_of(unit);
  spans_[index] = TimedSpan(timeline_, Activity::kGather, unit, bytes);
  std::span<const std::byte> own = state_.parameter_shard(unit);
  // What was wanted before it is not gathered after all. One that is on its way for this gather is wanted for a later.
  if (const auto wanted = std::ranges::find(wanted_, unit);
      wanted != wanted_.end() && !state_.streams().prefetches(unit))
    wanted_.erase(wanted_.begin(), wanted + 1);
  const bool copies = own.empty() && updates_.complete_into != nullptr;
  if (!copies) updates_.complete(unit);
  std::optional<PhaseTimer::Span> span(std::in_place, timer_);
  std::byte* block = acquire(bytes);
  const std::span<std::byte> whole{block, static_cast<std::size_t>(bytes)};
  if (own.empty()) {  // it lies on another tier: brought into its place in the whole
    const std::size_t shard_bytes = whole.size() / static_cast<std::size_t>(comm_.world());
    const std::span<std::byte> brought =
        whole.subspan(shard_bytes * static_cast<std::size_t>(comm_.rank()), shard_bytes);
    try {
      std::int64_t missing = state_.shard(unit).numel;
      if (copies) {
        span.reset();  // the update counts its own
        missing = updates_.complete_into(unit, brought.data());
        span.emplace(timer_);
      }
      state_.streams().fetch_parameter(unit, brought.data(), missing);
    } catch (...) {
      pool().release(block);
      throw;
    }
    own = brought;
  }
  data_[index] = block;
  resident_.add(unit);
  begin_prefetches();
  pending_[index] = comm_.all_gather(own, whole, {.unit = unit});
}

void Gatherer::ensure(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  last_use_[index] = ++clock_;
  if (ready_[index]) return;
  const TimedSpan waiting(timeline_, Activity::kWaitGather, unit);
  begin(unit);
  const PhaseTimer::Span span(timer_);
  pending_[index].wait();
  spans_[index].end();
  ready_[index] = true;
  observer_.bind(unit, data_[index]);
}

void Gatherer::release(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  if (!resident_.holds(unit)) return;
  ZERO_CHECK(pins_[index] == 0, "unit {} is released while an operator uses it", state_.unit(unit).name);
  // A gather that was begun must be finished: the peers count on this rank's part of it.
  if (!pending_[index].finished()) pending_[index].wait();
  spans_[index].end();
  observer_.bind(unit, nullptr);
  pool().release(data_[index]);
  data_[index] = nullptr;
  ready_[index] = false;
  resident_.remove(unit);
}

void Gatherer::finish() {
  for (const Unit& unit : state_.units()) {
    if (!pending_[static_cast<std::size_t>(unit.index)].finished()) ensure(unit.index);
  }
}

void Gatherer::refresh(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  constexpr std::size_t kMaxPending = 32;  // a transport has room for this many works in flight, and some to spare
  if (refreshing_.size() == kMaxPending) {
    ensure(refreshing_.front());
    refreshing_.pop_front();
  }
  refreshing_.push_back(unit);
  const std::int64_t bytes = resident_.bytes_of(unit);
  spans_[index] = TimedSpan(timeline_, Activity::kGather, unit, bytes);
  pending_[index] =
      comm_.all_gather(state_.parameter_shard(unit), {data_[index], static_cast<std::size_t>(bytes)}, {.unit = unit});
  ready_[index] = false;
  if (!pending_[index].finished()) observer_.bind(unit, nullptr);  // until ensure() some of it is the old one
}

std::vector<int> Gatherer::releasable() const {
  std::vector<int> units = resident_.units();
  std::erase_if(units, [this](int unit) { return pins_[static_cast<std::size_t>(unit)] > 0; });
  std::sort(units.begin(), units.end(), [this](int a, int b) {
    return last_use_[static_cast<std::size_t>(a)] < last_use_[static_cast<std::size_t>(b)];
  });
  return units;
}

void Gatherer::before_writing() {
  if (!state_.placement().parameter_sharded || brings_shards_) comm_.drain();
}

void Gatherer::mark_written(int unit) {
  written_[static_cast<std::size_t>(unit)] = true;
  before_writing();
}

void Gatherer::unpin(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  ZERO_CHECK(pins_[index] > 0, "unit {} is not pinned", unit);
  if (--pins_[index] > 0 || !written_[index]) return;
  written_[index] = false;
  comm_.drain();  // a late peer may still be reading what is about to change
  state_.contents().store(unit, data_[index]);
}

std::vector<int> Gatherer::pinned() const {
  std::vector<int> units;
  for (std::size_t unit = 0; unit < pins_.size(); ++unit) {
    if (pins_[unit] > 0) units.push_back(static_cast<int>(unit));
  }
  return units;
}

}  // namespace zero
