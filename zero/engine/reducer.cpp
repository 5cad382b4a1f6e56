#include "zero/engine/reducer.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "zero/base/check.h"
#include "zero/comm/rank_sum.h"
#include "zero/memory/host_memory.h"
#include "zero/plan/schedule.h"

namespace zero {
namespace {

constexpr std::size_t kMaxInPlacePending = 16;

// to += from, or to = from; `from` in from_dtype, `to` in to_dtype (the same, or fp32).
void take(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype, std::int64_t numel, bool add) {
  if (!add && from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(numel) * size_of(from_dtype));
    return;
  }
  if (!add) return convert_elements(from, from_dtype, to, to_dtype, numel);
  with_type_of(from_dtype, [&]<typename In>(std::type_identity<In>) {
    with_type_of(to_dtype, [&]<typename Out>(std::type_identity<Out>) {
      const auto* in = reinterpret_cast<const In*>(from);
      auto* out = reinterpret_cast<Out*>(to);
      for (std::int64_t i = 0; i < numel; ++i) out[i] = rounded_to<Out>(to_float(out[i]) + to_float(in[i]));
    });
  });
}

std::int64_t largest_unit(const std::vector<Unit>& units, int world) {
  std::int64_t largest = 0;
  for (const Unit& unit : units) {
    if (unit.trainable) largest = std::max(largest, gathered_bytes(unit, world));
  }
  return largest;
}

// What fills together: the units of one block.
struct Filling {
  std::int64_t bytes = 0;
  std::size_t num_params = 0;
  bool repeated = false;
  bool alone() const { return num_params == 1; }
};

std::vector<Filling> fillings_of(const std::vector<Unit>& units, int world) {
  std::map<int, Filling> by_block;
  for (const Unit& unit : units) {
    if (!unit.trainable) continue;
    Filling& filling = by_block[unit.fills_with];
    filling.bytes += gathered_bytes(unit, world);
    filling.num_params += unit.slices.size();
    filling.repeated = unit.repeated;
  }
  std::vector<Filling> fillings;
  for (const auto& [block, filling] : by_block) fillings.push_back(filling);
  return fillings;
}

// The largest that counts, and the largest other one; 0 where there is none.
template <typename Counts>
std::pair<std::int64_t, std::int64_t> largest_two(const std::vector<Filling>& fillings, Counts counts) {
  std::int64_t first = 0, second = 0;
  for (const Filling& filling : fillings) {
    if (!counts(filling)) continue;
    second = std::max(second, std::min(first, filling.bytes));
    first = std::max(first, filling.bytes);
  }
  return {first, second};
}

}  // namespace

std::int64_t Reducer::staging_limit(const std::vector<Unit>& units, int world, bool minimum) {
  if (!minimum) return 2 * largest_unit(units, world);
  const std::vector<Filling> fillings = fillings_of(units, world);
  const auto [largest, next] = largest_two(fillings, [](const Filling&) { return true; });
  std::int64_t limit = largest + largest_two(fillings, std::mem_fn(&Filling::alone)).second;
  for (const Filling& filling : fillings) {
    if (filling.alone() || filling.repeated) continue;
    limit = std::max(limit, filling.bytes + (filling.bytes == largest ? next : largest));
  }
  return limit;
}

Reducer::Reducer(ShardedState& state, std::size_t num_params, bool minimum, Communicator& comm, Ledger& ledger,
                 Timeline* timeline, Communicator* across)
    : state_(state),
      comm_(comm),
      over_ranks_(comm, across, GradientSum::blocks_of(state.units(), state.world(), state.placement().copies, minimum),
                  ledger),
      timeline_(timeline),
      timer_([&state] { return state.streams().waited_seconds(); }),
      staging_([&comm](std::size_t bytes) { return comm.allocate(bytes); }, ledger, MemoryTag::kStaging),
      sums_(allocate_host, ledger, MemoryTag::kStaging),
      addresses_(addresses_of(state.units(), num_params)),
      gradients_(state.units().size()),
      arrived_(num_params, false),
      present_(num_params, false),
      max_pending_(minimum ? 0 : 1),
      staging_limit_(staging_limit(state.units(), state.world(), minimum)) {
  // The largest first, so that every smaller unit can use it.
  const std::int64_t largest = largest_unit(state.units(), state.world());
  if (minimum && largest > 0 && (state.placement().gradient_sharded || state.placement().fp32_gradient())) {
    staging_.release(staging_.acquire(largest, 0));
  }
}

bool Reducer::in_place(int unit) const {
  const Placement& placement = state_.placement();
  // Gradients of 16 bits whose sums stay fp32 arrive in 16 bits at every stage.
  const bool widened = placement.fp32_sums && state_.unit(unit).dtype != DType::kFloat32;
  const bool each_of_several = placement.reduce_each && (placement.accumulate > 1 || widened);
  return !placement.gradient_sharded && !each_of_several && at(unit).num_rounds == 0;
}

std::byte* Reducer::flat(int unit) const {
  return in_place(unit) ? state_.whole_gradient(unit) : at(unit).staging;
}
DType Reducer::flat_dtype(int unit) const {
  return in_place(unit) ? state_.gradient_dtype(unit) : state_.unit(unit).dtype;
}

std::byte* Reducer::acquire(int unit) {
  const std::int64_t bytes = gathered_bytes(state_.unit(unit), state_.world());
  while (!pending_.empty() && staging_.in_use_bytes() + bytes > staging_limit_) wait_oldest();
  comm_.drain();  // a late peer may still read what an idle block held, and that is used again, or given back
  return staging_.acquire(bytes, 0);
}

void Reducer::add(int param, const std::byte* gradient) {
  const PhaseTimer::Span timed(timer_);
  const auto index = static_cast<std::size_t>(param);
  const int unit = addresses_[index].unit;
  const Unit& description = state_.unit(unit);
  const Slice& slice = description.slices[static_cast<std::size_t>(addresses_[index].slice)];
  ZERO_CHECK(description.trainable, "a frozen parameter of {} got a gradient", description.name);
  if (slice.numel == 0) {  // its unit does not wait for it, and may be reduced already
    present_[index] = true;
    return;
  }
  if (std::exchange(must_drain_, false)) comm_.drain();
  UnitGradient& state = at(unit);
  const bool whole = in_place(unit);
  if (!whole && state.staging == nullptr) state.staging = acquire(unit);
  const DType dtype = flat_dtype(unit);
  std::byte* to = flat(unit) + slice.offset * static_cast<std::int64_t>(size_of(dtype));
  const bool add_to = whole ? present_[index] : arrived_[index];
  take(gradient, description.dtype, to, dtype, slice.numel, add_to);
  if (!arrived_[index]) ++state.num_arrived;
  arrived_[index] = true;
  present_[index] = true;
}

bool Reducer::complete(int unit) const {
  const auto& slices = state_.unit(unit).slices;
  const auto wanted = std::count_if(slices.begin(), slices.end(), [](const Slice& slice) { return slice.numel > 0; });
  return at(unit).num_arrived == wanted;
}

bool Reducer::open(int unit) const {
  return at(unit).num_arrived > 0;
}

void Reducer::zero_missing(int unit) {
  const Unit& description = state_.unit(unit);
  const bool whole = in_place(unit);
  const auto size = static_cast<std::int64_t>(size_of(flat_dtype(unit)));
  std::byte* range = flat(unit);
  const auto zero = [&](std::int64_t begin, std::int64_t end) {
    if (end > begin) std::memset(range + begin * size, 0, static_cast<std::size_t>((end - begin) * size));
  };
  std::int64_t gap = 0;
  for (const Slice& slice : description.slices) {
    const auto param = static_cast<std::size_t>(slice.param);
    zero(gap, slice.offset);
    if (!(whole ? present_[param] : arrived_[param])) zero(slice.offset, slice.offset + slice.numel);
    gap = slice.offset + slice.numel;
  }
  zero(gap, padded_numel(description, state_.world()));
}

// Micro-batches were summed in fp32; what crosses is of the gradients' type.
std::byte* Reducer::to_wire_type(int unit) {
  std::byte* wire = acquire(unit);
  const Unit& description = state_.unit(unit);
  convert_elements(flat(unit), DType::kFloat32, wire, description.dtype, padded_numel(description, state_.world()));
  return wire;
}

std::int64_t Reducer::shard_bytes(int unit, DType dtype) const {
  return state_.shard(unit).numel * static_cast<std::int64_t>(size_of(dtype));
}

void Reducer::reduce(int unit) {
  const PhaseTimer::Span timed(timer_);
  UnitGradient& state = at(unit);
  const Unit& description = state_.unit(unit);
  if (!in_place(unit) && state.staging == nullptr) state.staging = acquire(unit);
  if (std::exchange(must_drain_, false)) comm_.drain();  // no gradient came at all: add() has not done it
  zero_missing(unit);
  if (state.num_rounds > 0 && state_.gradient_dtype(unit) != DType::kFloat32) {
    throw ConfigError(
        "accumulate", "1", fmt::format("{} got gradients from a second backward pass in one step", description.name),
        fmt::format("set accumulate to the number of backward passes of a step: {} gradients are then summed in fp32",
                    name_of(description.dtype)));
  }
  ReduceScatter request{.dtype = description.dtype,
                        .out_dtype = state_.gradient_dtype(unit),
                        .accumulate = state.num_rounds > 0,
                        .stats = &state.stats};
  std::byte* wire = flat_dtype(unit) == description.dtype ? flat(unit) : to_wire_type(unit);
  request.in = {wire, static_cast<std::size_t>(shard_bytes(unit, description.dtype) * state_.world())};
  // A shard that lies on another tier is summed here first, on top of what was brought from there.
  std::byte* sum = nullptr;
  if (state_.gradient_shard(unit) == nullptr) {
    wait_for(unit);
    tell_landed();
    sum = sums_.acquire(shard_bytes(unit, state_.gradient_dtype(unit)), 0);
    if (request.accumulate) state_.streams().fetch_gradient(unit, sum);
  }
  request.out = {sum != nullptr ? sum : state_.gradient_shard(unit),
                 static_cast<std::size_t>(shard_bytes(unit, request.out_dtype))};
  const bool staged = wire != state_.whole_gradient(unit);
  while (pending_.size() >= over_ranks_.most_begun()) wait_oldest();
  TimedSpan span(timeline_, Activity::kReduce, unit, static_cast<std::int64_t>(request.in.size()));
  pending_.push_back(
      {over_ranks_.begin(request, {.unit = unit}), unit, staged ? wire : nullptr, sum, num_passes_, std::move(span)});
  state.staging = nullptr;
  state.num_arrived = 0;
  state.reduced = true;
  ++state.num_rounds;
  for (const Slice& slice : description.slices) arrived_[static_cast<std::size_t>(slice.param)] = false;
  while (pending_.size() > (staged ? max_pending_ : kMaxInPlacePending)) wait_oldest();
  tell_landed();
}

void Reducer::offload(Pending& pending) {
  pending.span.end();
  if (std::byte* sum = std::exchange(pending.sum, nullptr)) {
    state_.streams().offload_gradient(pending.unit, sum);
    sums_.release(sum);
  }
}

// Blocks that peers read stay as they are: when one is given back must be the same on every rank.
void Reducer::pump() {
  for (Pending& pending : pending_) {
    if (pending.sum == nullptr) continue;
    const PhaseTimer::Span timed(timer_);
    if (!state_.streams().may_offload() || !pending.work.try_complete()) return;
    offload(pending);
  }
}

void Reducer::wait_oldest() {
  Pending oldest = std::move(pending_.front());
  pending_.pop_front();
  {
    const TimedSpan waiting(timeline_, Activity::kWaitReduce, oldest.unit);
    oldest.work.wait();
  }
  offload(oldest);
  if (oldest.staging != nullptr) staging_.release(oldest.staging);
  landed_.emplace_back(oldest.unit, oldest.pass);
}

void Reducer::tell_landed() {
  for (const auto& [unit, pass] : std::exchange(landed_, {})) summed_(unit, pass);
}

void Reducer::wait_for(int unit) {
  while (std::ranges::any_of(pending_, [unit](const Pending& pending) { return pending.unit == unit; })) wait_oldest();
}

template <typename Use>
void Reducer::with_gradient_shard(int unit, bool writes, Use use) {
  if (std::byte* held = state_.gradient_shard(unit)) {
    use(held);
    return;
  }
  std::byte* block = sums_.acquire(shard_bytes(unit, state_.gradient_dtype(unit)), 0);
  state_.streams().fetch_gradient(unit, block);
  use(block);
  if (writes) state_.streams().offload_gradient(unit, block);
  sums_.release(block);
}

void Reducer::end_backward() {
  for (UnitGradient& state : gradients_) {
    ZERO_CHECK(state.staging == nullptr, "a gradient was left unreduced");
    state.num_arrived = 0;
    state.reduced = false;
  }
  std::fill(arrived_.begin(), arrived_.end(), false);
  ++num_passes_;
}

void Reducer::wait() {
  while (!pending_.empty()) wait_oldest();
  tell_landed();
}

void Reducer::finish() {
  const PhaseTimer::Span timed(timer_);
  wait();
  for (const Unit& unit : state_.units()) {
    if (!unit.trainable || !state_.placement().rounds_gradient(unit.dtype)) continue;
    const std::int64_t numel = state_.shard(unit.index).numel;
    with_gradient_shard(unit.index, /*writes=*/true, [&](std::byte* shard) {
      with_type_of(unit.dtype, [&]<typename T>(std::type_identity<T>) {
        auto* sum = reinterpret_cast<float*>(shard);
        for (std::int64_t i = 0; i < numel; ++i) sum[i] = to_float(rounded_to<T>(sum[i]));
      });
      at(unit.index).stats = stats_of(shard, DType::kFloat32, numel);
    });
  }
}

void Reducer::gather_gradient(int unit) {
  const PhaseTimer::Span timed(timer_);
  const Unit& description = state_.unit(unit);
  const Shard own = state_.shard(unit);
  const bool rounded = state_.placement().rounds_gradient(description.dtype);  // what finish() rounded crosses as that
  const std::size_t size = size_of(rounded ? description.dtype : state_.gradient_dtype(unit));
  const std::size_t block = static_cast<std::size_t>(own.numel) * size;
  std::byte* whole = state_.whole_gradient(unit);
  if (rounded) {
    whole = acquire(unit);
    convert_elements(state_.gradient_shard(unit), DType::kFloat32, whole + own.offset * static_cast<std::int64_t>(size),
                     description.dtype, own.numel);
    at(unit).gathered = whole;
  }
  const std::span<std::byte> out{whole, block * static_cast<std::size_t>(state_.world())};
  const TimedSpan span(timeline_, Activity::kGatherGradient, unit, static_cast<std::int64_t>(out.size()));
  comm_.all_gather(out.subspan(static_cast<std::size_t>(own.offset) * size, block), out, {.unit = unit}).wait();
}

void Reducer::read_shard(int unit, std::span<float> out) {
  const DType dtype = state_.gradient_dtype(unit);
  with_gradient_shard(unit, /*writes=*/false, [&](const std::byte* shard) {
    take(shard, dtype, reinterpret_cast<std::byte*>(out.data()), DType::kFloat32, std::ssize(out), /*add=*/false);
  });
}

int Reducer::first_non_finite(int unit) {
  const Shard own = state_.shard(unit);
  const DType dtype = state_.gradient_dtype(unit);
  int first = -1;
  with_gradient_shard(unit, /*writes=*/false, [&](const std::byte* shard) {
    for (const Slice& slice : state_.unit(unit).slices) {
      const SlicePart part = overlap(slice, own);
      const std::byte* begin = shard + (part.offset - own.offset) * static_cast<std::int64_t>(size_of(dtype));
      if (first < 0 && part.numel > 0 && stats_of(begin, dtype, part.numel).num_non_finite > 0) first = slice.param;
    }
  });
  return first;
}

const std::byte* Reducer::update_gradient(int unit) const {
  if (at(unit).gathered != nullptr) return at(unit).gathered;
  return state_.placement().optimizer_sharded ? state_.gradient_shard(unit) : state_.whole_gradient(unit);
}

DType Reducer::update_gradient_dtype(int unit) const {
  return at(unit).gathered != nullptr ? state_.unit(unit).dtype : state_.gradient_dtype(unit);
}

void Reducer::updated(int unit) {
  if (std::byte* block = std::exchange(at(unit).gathered, nullptr)) staging_.release(block);
}

void Reducer::clear() {
  for (UnitGradient& state : gradients_) state = UnitGradient{};
  std::fill(present_.begin(), present_.end(), false);
  num_passes_ = 0;
  must_drain_ = !state_.placement().gradient_sharded;
}

}  // namespace zero
