#include "zero/engine/reduce/reduced_gradients.h"

#include <utility>

#include "zero/comm/rank_sum.h"
#include "zero/device/element_kernels.h"
#include "zero/engine/states/unit_blocks.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

ReducedGradients::ReducedGradients(ShardedState& state, Communicator& comm, BlockPool& whole, BlockPool& shards,
                                   WorkTimer& timer, Timeline* timeline)
    : state_(state),
      comm_(comm),
      whole_(whole),
      shards_(shards),
      timer_(timer),
      timeline_(timeline),
      sums_(state.units().size()) {}

template <typename Use>
void ReducedGradients::with_shard(int unit, bool writes, Use use) {
  if (std::byte* held = state_.gradient_shard(unit)) {
    use(held);
    return;
  }
  const auto size = static_cast<std::int64_t>(size_of(state_.gradient_dtype(unit)));
  std::byte* block = shards_.acquire(state_.shard(unit).numel * size, 0, Lane::kUp);
  state_.streams().fetch_gradient(unit, block);
  use(block);
  if (writes) state_.streams().offload_gradient(unit, block);
  shards_.release(block, used_in(state_.device(), writes ? Lane::kDown : Lane::kUp));
}

HostCopy ReducedGradients::for_the_host(Lane lane, const std::byte* elements, DType dtype, std::int64_t numel) const {
  return {state_.device(), lane, {elements, static_cast<std::size_t>(numel) * size_of(dtype)}};
}

void ReducedGradients::change(int unit, const std::function<void(std::byte* shard)>& use) {
  with_shard(unit, /*writes=*/true, use);
}

void ReducedGradients::round() {
  for (const Unit& unit : state_.units()) {
    if (!unit.trainable || !state_.placement().rounds_gradient(unit.dtype)) continue;
    const std::int64_t numel = state_.shard(unit.index).numel;
    with_shard(unit.index, /*writes=*/true, [&](std::byte* shard) {
      follow(state_.device(), Lane::kReduce, Lane::kUp);
      round_to(state_.device(), Lane::kReduce, unit.dtype,
               {reinterpret_cast<float*>(shard), static_cast<std::size_t>(numel)});
      // the host has waited for the rounding
      const HostCopy rounded = for_the_host(Lane::kReduce, shard, DType::kFloat32, numel);
      at(unit.index).stats = stats_of(rounded.data(), DType::kFloat32, numel);
    });
  }
}

void ReducedGradients::drop(int unit, const std::vector<bool>& params) {
  const Shard own = state_.shard(unit);
  const DType dtype = state_.gradient_dtype(unit);
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  with_shard(unit, /*writes=*/true, [&](std::byte* shard) {
    follow(state_.device(), Lane::kReduce, Lane::kUp);
    for (const Slice& slice : owned_in(state_.unit(unit), own)) {
      const SlicePart part = overlap(slice, own);
      if (part.numel == 0 || !params[static_cast<std::size_t>(slice.param)]) continue;
      std::byte* const begin = shard + (part.offset - own.offset) * size;
      state_.device().fill(Lane::kReduce, {begin, static_cast<std::size_t>(part.numel * size)}, std::byte{0});
    }
    const HostCopy left = for_the_host(Lane::kReduce, shard, dtype, own.numel);  // the host has waited for the zeros
    at(unit).stats = stats_of(left.data(), dtype, own.numel);
  });
}

void ReducedGradients::gather(int unit) {
  const WorkTimer::Span timed(timer_);
  const Unit& description = state_.unit(unit);
  const Shard own = state_.shard(unit);
  // rounded sums are sent in the rounded type
  const bool rounded = state_.placement().rounds_gradient(description.dtype);
  const std::size_t size = size_of(rounded ? description.dtype : state_.gradient_dtype(unit));
  const std::size_t block = static_cast<std::size_t>(own.numel) * size;
  std::byte* whole = state_.whole_gradient(unit);
  if (rounded) {
    whole = whole_.acquire(gathered_bytes(description, state_.world()), 0, Lane::kReduce);
    cast(state_.device(), Lane::kReduce,
         {.from = state_.gradient_shard(unit),
          .to = whole + own.offset * static_cast<std::int64_t>(size),
          .to_dtype = description.dtype,
          .numel = own.numel});
    at(unit).gathered = whole;
  }
  const std::span<std::byte> out{whole, static_cast<std::size_t>(padded_numel(description, state_.world())) * size};
  const TimedSpan span(timeline_, Activity::kGatherGradient, unit, static_cast<std::int64_t>(out.size()));
  follow(state_.device(), Lane::kDown, rounded ? Lane::kReduce : Lane::kUp);
  comm_
      .all_gather(out.subspan(static_cast<std::size_t>(own.offset) * size, block), out,
                  {.unit = unit, .blocks = unit_blocks(description, size)})
      .wait();
}

void ReducedGradients::read_shard(int unit, std::span<float> out) {
  const DType dtype = state_.gradient_dtype(unit);
  with_shard(unit, /*writes=*/false, [&](const std::byte* shard) {
    convert_elements(for_the_host(Lane::kUp, shard, dtype, std::ssize(out)).data(), dtype,
                     reinterpret_cast<std::byte*>(out.data()), DType::kFloat32, std::ssize(out));
  });
}

int ReducedGradients::first_non_finite(int unit) {
  const Shard own = state_.shard(unit);
  const DType dtype = state_.gradient_dtype(unit);
  int first = -1;
  with_shard(unit, /*writes=*/false, [&](const std::byte* shard) {
    for (const Slice& slice : owned_in(state_.unit(unit), own)) {
      const SlicePart part = overlap(slice, own);
      const std::byte* begin = shard + (part.offset - own.offset) * static_cast<std::int64_t>(size_of(dtype));
      if (first >= 0 || part.numel == 0) continue;
      const HostCopy elements = for_the_host(Lane::kUp, begin, dtype, part.numel);
      if (stats_of(elements.data(), dtype, part.numel).num_non_finite > 0) first = slice.param;
    }
  });
  return first;
}

const std::byte* ReducedGradients::for_update(int unit) const {
  if (at(unit).gathered != nullptr) return at(unit).gathered;
  return state_.placement().optimizer_sharded ? state_.gradient_shard(unit) : state_.whole_gradient(unit);
}

DType ReducedGradients::update_dtype(int unit) const {
  return at(unit).gathered != nullptr ? state_.unit(unit).dtype : state_.gradient_dtype(unit);
}

void ReducedGradients::updated(int unit) {
  if (std::byte* block = std::exchange(at(unit).gathered, nullptr))
    whole_.release(block, used_in(state_.device(), Lane::kUpdate));
}

void ReducedGradients::clear() {
  for (UnitSum& sum : sums_) sum = {};
}

}  // namespace zero
