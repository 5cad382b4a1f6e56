#include "zero/engine/reduce/reducer.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/comm/rank_sum.h"
#include "zero/device/element_kernels.h"
#include "zero/engine/states/peer_blocks.h"
#include "zero/engine/states/unit_blocks.h"
#include "zero/engine/wire/gradient_staging.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {
namespace {

constexpr std::size_t kMaxInPlacePending = 16;

}  // namespace

Reducer::Reducer(ShardedState& state, std::size_t num_params, bool min_budget, Communicator& comm, Ledger& ledger,
                 Timeline* timeline, GradientSum::Copies copies, const std::optional<Leaves>& leaves)
    : state_(state),
      comm_(comm),
      over_ranks_(comm, copies, GradientSum::blocks_of(state.units(), state.world(), state.placement(), min_budget),
                  ledger),
      timeline_(timeline),
      timer_([&state] { return state.streams().waited_seconds(); }),
      staging_(peer_blocks(comm, ledger, MemoryTag::kStaging, state.device())),
      shards_([&state](std::size_t bytes) { return state.device().allocate(bytes); }, ledger, MemoryTag::kStaging,
              Tier::kDevice, {}, state.device()),
      arrivals_(state.units(), num_params),
      sums_(state, comm, staging_, shards_, timer_, timeline),
      leaf_sums_(state, leaves, comm.rank(), ledger),
      gradients_(state.units().size()),
      max_pending_(min_budget ? 0 : 1),
      staging_limit_(staging_limit(state.units(), state.world(), min_budget)) {
  // Allocates the largest block first, because every smaller unit can use it.
  const std::int64_t largest = largest_gradient(state.units(), state.world());
  if (min_budget && largest > 0 && (state.placement().gradient_sharded || state.placement().fp32_gradient())) {
    staging_.release(staging_.acquire(largest, 0));
  }
}

bool Reducer::in_place(int unit) const {
  const Placement& placement = state_.placement();
  // 16-bit gradients whose sums stay fp32 are sent in 16 bits at every stage.
  const bool widened = placement.fp32_sums && state_.unit(unit).dtype != DType::kFloat32;
  const bool each_of_several = placement.reduce_each && (placement.accumulate > 1 || widened);
  return !placement.gradient_sharded && !each_of_several && !leaf_sums_.counts() && at(unit).num_rounds == 0;
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
  return staging_.acquire(bytes, 0, Lane::kCompute);
}

void Reducer::before_whole_gradients_change() {
  if (!std::exchange(must_drain_, false)) return;
  comm_.drain();
  follow(state_.device(), Lane::kCompute, Lane::kUp);  // sums of the last step that no update has waited for
}

void Reducer::add(int param, const std::byte* gradient) {
  const WorkTimer::Span timed(timer_);
  const int unit = arrivals_.unit_of(param);
  const Unit& description = state_.unit(unit);
  ZERO_CHECK(description.trainable, "a frozen parameter of {} got a gradient", description.name);
  if (arrivals_.slice(param).numel > 0) {  // else its unit does not wait for it, and may already be reduced
    before_whole_gradients_change();
    const bool whole = in_place(unit);
    if (!whole && at(unit).staging == nullptr) at(unit).staging = acquire(unit);
    const DType dtype = flat_dtype(unit);
    const auto from_size = static_cast<std::int64_t>(size_of(description.dtype));
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    const bool add_to = whole ? arrivals_.present()[static_cast<std::size_t>(param)] : arrivals_.has(param);
    const bool counts = !leaf_sums_.is_idle(arrivals_.num_passes());
    for (const Slice& slice : owned_slices(description)) {
      if (slice.param != param || !counts) continue;
      const ElementArguments elements{.from = gradient + slice.begin * from_size,
                                      .from_dtype = description.dtype,
                                      .to = flat(unit) + slice.offset * size,
                                      .to_dtype = dtype,
                                      .numel = slice.numel};
      add_to ? zero::add(state_.device(), Lane::kCompute, elements) : cast(state_.device(), Lane::kCompute, elements);
    }
  }
  arrivals_.arrive(param);
}

void Reducer::zero_missing(int unit) {
  const Unit& description = state_.unit(unit);
  const bool whole = in_place(unit);
  const auto size = static_cast<std::int64_t>(size_of(flat_dtype(unit)));
  std::byte* range = flat(unit);
  const auto zero = [&](std::int64_t begin, std::int64_t end) {
    if (end <= begin) return;
    const auto bytes = static_cast<std::size_t>((end - begin) * size);
    state_.device().fill(Lane::kCompute, {range + begin * size, bytes}, std::byte{0});
  };
  std::int64_t gap = 0;
  for (const Slice& slice : owned_slices(description)) {
    zero(gap, slice.offset);
    const bool came = whole ? arrivals_.present()[static_cast<std::size_t>(slice.param)] : arrivals_.has(slice.param);
    if (!came) zero(slice.offset, slice.offset + slice.numel);
    gap = slice.offset + slice.numel;
  }
  zero(gap, padded_numel(description, state_.world()));
}

// Micro-batches were summed in fp32, and are sent in the type of gradients.
std::byte* Reducer::to_wire_type(int unit) {
  std::byte* wire = acquire(unit);
  const Unit& description = state_.unit(unit);
  cast(state_.device(), Lane::kCompute,
       {.from = flat(unit),
        .to = wire,
        .to_dtype = description.dtype,
        .numel = padded_numel(description, state_.world())});
  return wire;
}

std::int64_t Reducer::shard_bytes(int unit, DType dtype) const {
  return state_.shard(unit).numel * static_cast<std::int64_t>(size_of(dtype));
}

void Reducer::give(const GivenGradients& given) {
  given_ = &given;
  for (std::size_t param = 0; param < given.present.size(); ++param)
    if (given.present[param]) arrivals_.arrive(static_cast<int>(param));
}

void Reducer::sum_given(int unit) {
  const DType dtype = given_->dtype(state_.unit(unit)), sum_dtype = state_.gradient_dtype(unit);
  const std::vector<const std::byte*> parts = given_->shards(unit);
  std::byte* const held = state_.gradient_shard(unit);
  std::byte* const sum = held != nullptr ? held : shards_.acquire(shard_bytes(unit, sum_dtype), 0);
  ReduceStats stats;
  sum_ranks({.in = parts, .dtype = dtype, .out = sum, .out_dtype = sum_dtype, .numel = state_.shard(unit).numel},
            &stats);
  *sums_.stats_of_reduction(unit) = stats;
  if (held == nullptr) {
    state_.streams().offload_gradient(unit, sum);
    shards_.release(sum);
  }
  arrivals_.take(unit);
}

CounterStep Reducer::next_sum(int unit) const {
  const bool in_rounds = leaf_sums_.on() && !state_.placement().sums_leaves_here();
  return in_rounds ? leaf_sums_.step(arrivals_.num_passes()) : CounterStep{.adds = at(unit).num_rounds > 0};
}

// Returns the range that this rank sends.
std::byte* Reducer::prepare_wire(int unit) {
  if (state_.placement().sums_leaves_here()) {
    add_leaf(unit);
    return state_.whole_gradient(unit);
  }
  if (!in_place(unit) && at(unit).staging == nullptr) at(unit).staging = acquire(unit);
  before_whole_gradients_change();  // without any gradient, add() has not done it
  zero_missing(unit);
  return flat_dtype(unit) == state_.unit(unit).dtype ? flat(unit) : to_wire_type(unit);
}

void Reducer::reduce(int unit) {
  const WorkTimer::Span timed(timer_);
  if (given_ != nullptr) return sum_given(unit);
  UnitGradient& state = at(unit);
  const Unit& description = state_.unit(unit);
  leaf_sums_.require_leaf(unit, arrivals_.num_passes(), arrivals_.reduced(unit));
  std::byte* const wire = prepare_wire(unit);
  if (state.num_rounds > 0 && state_.gradient_dtype(unit) != DType::kFloat32) {
    throw ConfigError(
        "accumulate", "1", fmt::format("{} got gradients from a second backward pass in one step", description.name),
        fmt::format("set accumulate to the number of backward passes in a step; {} gradients are then summed in fp32",
                    name_of(description.dtype)));
  }
  if (leaf_sums_.counts()) {  // the sum before must be in its place
    wait_for(unit);
    report_landed();
  }
  const CounterStep next = next_sum(unit);
  const bool to_gradient = next.position == 0;
  ReduceScatter request{.dtype = wire_dtype(state_.placement(), description),
                        .out_dtype = state_.gradient_dtype(unit),
                        .accumulate = next.adds,
                        .stats = to_gradient ? sums_.stats_of_reduction(unit) : nullptr,
                        .merges = leaf_sums_.merges()};
  const std::int64_t wire_size = static_cast<std::int64_t>(size_of(request.dtype));
  request.in = {wire, static_cast<std::size_t>(padded_numel(description, state_.world()) * wire_size)};
  // A shard on another tier is summed in a block first, added to its elements from that tier.
  std::byte* sum = nullptr;
  if (to_gradient && state_.gradient_shard(unit) == nullptr) {
    wait_for(unit);
    report_landed();
    sum = shards_.acquire(shard_bytes(unit, state_.gradient_dtype(unit)), 0, Lane::kUp);
    if (request.accumulate) state_.streams().fetch_gradient(unit, sum);
  }
  // On a device that the host cannot read, the sum so far is complete only after the host has copied it up.
  if (sum == nullptr && request.accumulate && !state_.device().host_readable()) {
    wait_for(unit);
    report_landed();
  }
  std::byte* const held =
      to_gradient ? state_.gradient_shard(unit) : reinterpret_cast<std::byte*>(leaf_sums_.at(unit, next.position));
  request.out = {sum != nullptr ? sum : held, static_cast<std::size_t>(shard_bytes(unit, request.out_dtype))};
  const bool staged = wire != state_.whole_gradient(unit);
  while (pending_.size() >= over_ranks_.most_begun()) wait_oldest();
  TimedSpan span(timeline_, Activity::kReduce, unit, static_cast<std::int64_t>(request.in.size()));
  follow(state_.device(), Lane::kReduce, Lane::kCompute);
  if (request.accumulate) follow(state_.device(), Lane::kReduce, Lane::kUp);
  pending_.push_back(
      {over_ranks_.begin(request, {.unit = unit, .blocks = unit_blocks(description, size_of(request.dtype))}), unit,
       staged ? wire : nullptr, sum, arrivals_.num_passes(), next, std::move(span)});
  num_uses_ = 0;
  state.staging = nullptr;
  ++state.num_rounds;
  arrivals_.take(unit);
  while (pending_.size() > (staged ? max_pending_ : kMaxInPlacePending)) wait_oldest();
  report_landed();
}

void Reducer::sum_leaf(int unit) {
  if (!state_.placement().sums_leaves_here()) return;
  const WorkTimer::Span timed(timer_);
  leaf_sums_.require_leaf(unit, arrivals_.num_passes(), arrivals_.reduced(unit));
  add_leaf(unit);
  arrivals_.take(unit);
}

// All ranks acquire the same blocks, idle ones too.
void Reducer::add_leaf(int unit) {
  UnitGradient& state = at(unit);
  if (state.staging == nullptr) state.staging = acquire(unit);
  before_whole_gradients_change();
  if (const int pass = arrivals_.num_passes(); !leaf_sums_.is_idle(pass)) {
    zero_missing(unit);
    const CounterStep step = leaf_sums_.step(pass);
    const auto sum_at = [&](int position) {
      return position == 0 ? state_.whole_gradient(unit) : reinterpret_cast<std::byte*>(leaf_sums_.at(unit, position));
    };
    ElementArguments leaf{.from = state.staging,
                          .from_dtype = state_.unit(unit).dtype,
                          .to = sum_at(step.position),
                          .numel = leaf_sums_.numel(unit)};
    step.adds ? zero::add(state_.device(), Lane::kCompute, leaf) : cast(state_.device(), Lane::kCompute, leaf);
    for (int top = step.position; top > step.position - step.merges; --top)
      zero::add(state_.device(), Lane::kCompute,
                {.from = sum_at(top), .to = sum_at(top - 1), .numel = leaf_sums_.numel(unit)});
  }
  staging_.release(std::exchange(state.staging, nullptr), used_in(state_.device(), Lane::kCompute));
}

void Reducer::merge(int unit, int position) {
  const std::int64_t numel = leaf_sums_.numel(unit);
  const auto add_to = [&](std::byte* below, ReduceStats* stats) {
    const std::byte* const in[] = {below, reinterpret_cast<const std::byte*>(leaf_sums_.at(unit, position))};
    sum_ranks({.in = in, .out = below, .numel = numel}, stats);
  };
  if (position > 1) return add_to(reinterpret_cast<std::byte*>(leaf_sums_.at(unit, position - 1)), nullptr);
  ReduceStats& stats = *sums_.stats_of_reduction(unit);
  stats = {};
  sums_.change(unit, [&](std::byte* shard) { add_to(shard, &stats); });
}

void Reducer::offload(Pending& pending) {
  pending.span.end();
  if (std::byte* sum = std::exchange(pending.sum, nullptr)) {
    state_.streams().offload_gradient(pending.unit, sum);
    shards_.release(sum, used_in(state_.device(), Lane::kDown));
  }
}

// Does not free blocks that peers read: these must be freed at the same time on every rank. With copies, a use may
// begin several gathers over the ranks of the sum.
void Reducer::pump() {
  constexpr int kMostUses = 16;
  if (over_ranks_.is_chained() && !pending_.empty() && ++num_uses_ > kMostUses) wait();
  for (Pending& pending : pending_) {
    if (pending.sum == nullptr) continue;
    const WorkTimer::Span timed(timer_);
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
  for (int merges = 0; merges < oldest.counted.merges; ++merges) merge(oldest.unit, oldest.counted.position - merges);
  // its sum is complete: the host has seen the copy down
  if (oldest.staging != nullptr) staging_.release(oldest.staging);
  landed_.emplace_back(oldest.unit, oldest.pass);
}

void Reducer::report_landed() {
  for (const auto& [unit, pass] : std::exchange(landed_, {})) summed_(unit, pass);
}

void Reducer::wait_for(int unit) {
  while (std::ranges::any_of(pending_, [unit](const Pending& pending) { return pending.unit == unit; })) wait_oldest();
}

void Reducer::end_backward() {
  for (const UnitGradient& state : gradients_) ZERO_CHECK(state.staging == nullptr, "a gradient was left unreduced");
  arrivals_.end_backward();
}

void Reducer::wait() {
  while (!pending_.empty()) wait_oldest();
  report_landed();
}

void Reducer::finish() {
  const WorkTimer::Span timed(timer_);
  wait();
  sums_.round();
}

void Reducer::drop(const std::vector<bool>& params) {
  const auto dropped = [&params](const Slice& slice) { return params[static_cast<std::size_t>(slice.param)]; };
  for (const Unit& unit : state_.units()) {
    if (!unit.trainable || std::ranges::none_of(unit.slices, dropped)) continue;
    if (at(unit.index).num_rounds > 0) sums_.drop(unit.index, params);
    if (std::ranges::all_of(unit.slices, dropped)) at(unit.index) = {};  // the next reduction is the first
  }
  arrivals_.forget(params);
  must_drain_ = !state_.placement().gradient_sharded;
}

void Reducer::clear() {
  for (UnitGradient& state : gradients_) state = UnitGradient{};
  arrivals_.clear();
  sums_.clear();
  given_ = nullptr;
  must_drain_ = !state_.placement().gradient_sharded;
}

}  // namespace zero
