#include "zero/engine/gather/gatherer.h"

#include <utility>

#include "zero/base/error/check.h"
#include "zero/engine/states/unit_blocks.h"

namespace zero {

Gatherer::Gatherer(ShardedState& state, Communicator& comm, Ledger& ledger, UnitObserver& observer,
                   SecondaryParts& parts, ShardUpdates updates, Timeline* timeline)
    : state_(state),
      comm_(comm),
      observer_(observer),
      updates_(std::move(updates)),
      timeline_(timeline),
      timer_([&state] { return state.streams().waited_seconds(); }),
      spans_(state.units().size()),
      blocks_(state, comm, ledger),
      parts_(parts),
      uses_(state, comm, blocks_, parts),
      resident_(state.units(), comm.world()),
      prefetches_(state.streams(), blocks_, resident_, updates_.current),
      pending_(state.units().size()),
      keeps_(state.units().size(), false),
      ready_(state.units().size(), false),
      data_(state.units().size(), nullptr) {
  if (state.placement().parameter_sharded) return;
  for (const Unit& unit : state.units()) {
    const auto index = static_cast<std::size_t>(unit.index);
    data_[index] = state.whole_parameter(unit.index);
    ready_[index] = true;
    observer_.bind(unit.index, data_[index]);
  }
}

CommTag Gatherer::tag_of(int unit) const {
  const Unit& description = state_.unit(unit);
  return {.unit = unit, .blocks = unit_blocks(description, size_of(description.dtype))};
}

void Gatherer::begin(int unit, GatherWay way) {
  const auto index = static_cast<std::size_t>(unit);
  if (!state_.placement().parameter_sharded || resident_.holds(unit)) return;
  spans_[index] = TimedSpan(timeline_, Activity::kGather, unit, resident_.bytes_of(unit));
  const bool from_parts = way != GatherWay::kAllAndKeep && parts_.current(unit);
  keeps_[index] = !from_parts && way != GatherWay::kAll;
  from_parts ? begin_parts(unit) : begin_shards(unit);
}

// Needs no lower tier and no update: the gather before has waited for both, and nothing was updated since.
void Gatherer::begin_parts(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  const WorkTimer::Span span(timer_);
  const std::int64_t bytes = resident_.bytes_of(unit);
  data_[index] = blocks_.acquire(bytes);
  resident_.add(unit);
  prefetches_.pump();
  pending_[index] = parts_.gather(unit, {data_[index], static_cast<std::size_t>(bytes)});
}

void Gatherer::begin_shards(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  const std::int64_t bytes = resident_.bytes_of(unit);
  std::span<const std::byte> own = state_.parameter_shard(unit);
  prefetches_.gather_begins(unit);
  if (!own.empty() || updates_.complete_into == nullptr) updates_.complete(unit);
  std::optional<WorkTimer::Span> span(std::in_place, timer_);
  std::byte* block = blocks_.acquire(bytes);
  const bool brought = own.empty();
  if (brought) own = bring_own(unit, block, span);
  follow(state_.device(), Lane::kDown, brought ? Lane::kUp : Lane::kUpdate);
  data_[index] = block;
  resident_.add(unit);
  prefetches_.pump();
  pending_[index] = comm_.all_gather(own, {block, static_cast<std::size_t>(bytes)}, tag_of(unit));
}

// Copies this rank's shard from another tier to its place in the block. `span` is the gather's; a running update has
// its own.
std::span<const std::byte> Gatherer::bring_own(int unit, std::byte* block, std::optional<WorkTimer::Span>& span) {
  const Shard shard = state_.shard(unit);
  const auto size = static_cast<std::int64_t>(size_of(state_.unit(unit).dtype));
  std::byte* const place = block + shard.offset * size;
  try {
    std::int64_t missing = shard.numel;
    if (updates_.complete_into != nullptr) {
      span.reset();
      missing = updates_.complete_into(unit, place);
      span.emplace(timer_);
    }
    state_.streams().fetch_parameter(unit, place, missing);
  } catch (...) {
    blocks_.release(block);
    throw;
  }
  return {place, static_cast<std::size_t>(shard.numel * size)};
}

void Gatherer::ensure(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  uses_.note_access(unit);
  if (ready_[index]) return;
  const TimedSpan waiting(timeline_, Activity::kWaitGather, unit);
  begin(unit);
  const WorkTimer::Span span(timer_);
  const Lane last = arrive(unit);
  if (state_.unit(unit).scattered) put_together(unit);
  follow(state_.device(), Lane::kCompute, state_.unit(unit).scattered ? Lane::kGather : last);
  ready_[index] = true;
  observer_.bind(unit, data_[index]);
}

// Returns the last lane that uses the block, after all its other lanes.
Lane Gatherer::arrive(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  pending_[index].wait();
  spans_[index].end();
  const bool kept = keeps_[index] && parts_.keep(unit, data_[index]);
  keeps_[index] = false;
  return kept ? Lane::kGather : Lane::kUp;
}

// Peers may still read this rank's shard in the block of the gather, so the parameters get a block of their own.
void Gatherer::put_together(int unit) {
  std::byte*& data = data_[static_cast<std::size_t>(unit)];
  Device& device = state_.device();
  std::byte* const whole = blocks_.acquire(resident_.bytes_of(unit), Lane::kGather);
  follow(device, Lane::kGather, Lane::kUp);
  to_parameter_order(device, Lane::kGather, state_.unit(unit), data, whole, size_of(state_.unit(unit).dtype));
  blocks_.release(std::exchange(data, whole), used_in(device, Lane::kGather));
}

void Gatherer::release(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  if (!resident_.holds(unit)) return;
  ZERO_CHECK(!uses_.is_pinned(unit), "unit {} is released while an operator uses it", state_.unit(unit).name);
  // A begun gather must be finished: peers wait for this rank's part of it.
  const Lane last = ready_[index] ? Lane::kCompute : arrive(unit);
  observer_.bind(unit, nullptr);
  blocks_.release(data_[index], used_in(state_.device(), last));
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
  constexpr std::size_t kMaxPending = 32;  // a transport has room for more works than this
  if (refreshing_.size() == kMaxPending) {
    ensure(refreshing_.front());
    refreshing_.pop_front();
  }
  refreshing_.push_back(unit);
  const std::int64_t bytes = resident_.bytes_of(unit);
  spans_[index] = TimedSpan(timeline_, Activity::kGather, unit, bytes);
  follow(state_.device(), Lane::kDown, Lane::kUpdate);
  pending_[index] =
      comm_.all_gather(state_.parameter_shard(unit), {data_[index], static_cast<std::size_t>(bytes)}, tag_of(unit));
  ready_[index] = false;
  if (!pending_[index].finished()) observer_.bind(unit, nullptr);  // before ensure() a part of it is old
}

}  // namespace zero
