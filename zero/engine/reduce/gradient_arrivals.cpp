#include "zero/engine/reduce/gradient_arrivals.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

namespace zero {

GradientArrivals::GradientArrivals(const std::vector<Unit>& units, std::size_t num_params)
    : units_(units),
      addresses_(addresses_of(units, num_params)),
      of_units_(units.size()),
      arrived_(num_params, false),
      present_(num_params, false) {}

const Slice& GradientArrivals::slice(int param) const {
  const SliceAddress& at = addresses_[static_cast<std::size_t>(param)];
  return units_[static_cast<std::size_t>(at.unit)].slices[static_cast<std::size_t>(at.slice)];
}

void GradientArrivals::arrive(int param) {
  const auto index = static_cast<std::size_t>(param);
  present_[index] = true;
  if (slice(param).numel == 0) return;
  if (!arrived_[index]) ++of_units_[static_cast<std::size_t>(unit_of(param))].num;
  arrived_[index] = true;
}

bool GradientArrivals::complete(int unit) const {
  const auto& slices = units_[static_cast<std::size_t>(unit)].slices;
  return at(unit).num == std::ranges::count_if(slices, [](const Slice& slice) { return slice.numel > 0; });
}

void GradientArrivals::take(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  of_units_[index] = {.num = 0, .taken = true};
  for (const Slice& slice : units_[index].slices) arrived_[static_cast<std::size_t>(slice.param)] = false;
}

void GradientArrivals::end_backward() {
  std::ranges::fill(of_units_, Arrived{});
  arrived_.assign(arrived_.size(), false);
  ++num_passes_;
}

void GradientArrivals::forget(const std::vector<bool>& params) {
  for (std::size_t param = 0; param < params.size(); ++param)
    if (params[param]) present_[param] = false;
}

void GradientArrivals::clear() {
  std::ranges::fill(of_units_, Arrived{});
  present_.assign(present_.size(), false);
  num_passes_ = 0;
}

bool leaves_gradients(Communicator& comm, const std::vector<bool>& dropped, const std::vector<bool>& present) {
  constexpr std::byte kDropped{1}, kPresent{2};
  const std::size_t num_params = dropped.size(), world = static_cast<std::size_t>(comm.world());
  const std::size_t bytes = (num_params + 7) / 8 * 8;
  std::vector<std::byte> all(world * bytes);
  const auto of_rank = [&](std::size_t rank) { return std::span(all).subspan(rank * bytes, bytes); };
  const std::span<std::byte> mine = of_rank(static_cast<std::size_t>(comm.rank()));
  for (std::size_t param = 0; param < num_params; ++param)
    mine[param] = (dropped[param] ? kDropped : std::byte{0}) | (present[param] ? kPresent : std::byte{0});
  all_gather(comm, mine, all, {.control = true});
  bool leaves = false;
  for (std::size_t rank = 0; rank < world; ++rank) {
    for (std::size_t param = 0; param < num_params; ++param) {
      const std::byte theirs = of_rank(rank)[param];
      if ((theirs & kDropped) != (of_rank(0)[param] & kDropped))
        throw ConfigError("zero_grad", fmt::format("rank {}", rank),
                          "it drops gradients of different parameters than rank 0",
                          "call zero_grad() or discard_gradients() on every rank, at the same place");
      leaves = leaves || theirs == kPresent;
    }
  }
  return leaves;
}

}  // namespace zero
