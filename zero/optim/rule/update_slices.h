// UpdateSlices: the arguments of an update's kernel: several spans with their constants in one call.
//
//   AdamArguments arguments;                           // UpdateSlices<AdamConstants>
//   arguments.add(span, adam_constants(options, scalars));
//   run(device, Lane::kUpdate, kAdam, arguments, {reads(gradient), changes(states)});
//
// A device runs all slices in one launch. The host runs the rule's own kernel for each slice in order. Local.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "zero/base/numbers/sum_limbs.h"
#include "zero/device/kernel.h"
#include "zero/optim/rule/update_span.h"

namespace zero {

[[noreturn]] void throw_full(std::size_t most);  // throws InternalError

template <typename Constants>
struct UpdateSlices {
  static constexpr std::size_t kMost = 16;

  std::size_t count = 0;
  std::array<UpdateSpan, kMost> spans{};
  std::array<Constants, kMost> constants{};

  bool full() const { return count == kMost; }
  void add(const UpdateSpan& span, const Constants& of_span) {
    if (full()) throw_full(kMost);
    spans[count] = span;
    constants[count++] = of_span;
  }
};

// Runs a kernel that adds two sums of one slice. `Arguments` has `slices`, `parameter` and `direction`. `accesses`:
// reads beside the slice.
template <typename Arguments>
void queue_two_sums(Device& device, Lane lane, const Kernel& kernel, Arguments& arguments, std::span<SumLimbs> sums,
                    std::vector<Access> accesses = {}) {
  arguments.parameter[0] = &sums[0];
  arguments.direction[0] = &sums[1];
  accesses.push_back(changes(sums.first(2)));
  for (const Access& access : arguments.slices.spans[0].read_accesses()) accesses.push_back(access);
  device.run(lane, {kernel, std::as_bytes(std::span(&arguments, 1)), accesses});
}

template <typename Constants, void (*update)(const UpdateSpan& span, const Constants& constants)>
void update_each(const UpdateSlices<Constants>& slices) {
  for (std::size_t i = 0; i < slices.count; ++i) update(slices.spans[i], slices.constants[i]);
}

}  // namespace zero
