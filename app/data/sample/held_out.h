// hold_out_classes(): selects the samples that a fraction of data.validation holds out.
//
//   held_out(0.1, 1'115'394)                                  // 111,540 tokens or rows: the end of the data
//   held_out_of_class(0.25, 8)                                // 2 samples of a class of 8
//   HeldOut held = hold_out_classes(labels, 0.25, /*in_file_order=*/true);
//   take_in_order(texts, held.order);                         // the training part, then held.count held-out samples
//
// Without classes, the last ceil(n * fraction) samples are held out, as nanoGPT does. With classes, the last n *
// fraction samples of each class of n samples are held out. The number is rounded to the nearest, at least 1 and at
// most n - 1. A class with one sample is only trained on. If samples have a file order, the end of the file is held out
// when it is fair. That means: for each class the end has between half and twice that number, and leaves training
// samples.
//
// Values; Local.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace zero {

std::int64_t held_out(double fraction, std::int64_t n);
std::int64_t held_out_of_class(double fraction, std::int64_t n);

struct HeldOut {
  std::int64_t count = 0;
  std::vector<std::int64_t> order{};  // the samples' new order; each part keeps the data's order. Empty: unchanged
};

// Selects samples of each class. `in_file_order`: the order of the samples may have a meaning, such as time. `count` is
// 0 if the fraction is 0, or if no class has two samples.
HeldOut hold_out_classes(std::span<const std::int64_t> labels, double fraction, bool in_file_order);

// Reorders rows of `width` values; an empty order changes nothing.
template <typename T>
void take_in_order(std::vector<T>& values, std::span<const std::int64_t> order, std::int64_t width = 1) {
  if (order.empty() || values.empty()) return;
  std::vector<T> taken;
  taken.reserve(values.size());
  for (const std::int64_t row : order)
    for (auto at = values.begin() + row * width; at != values.begin() + (row + 1) * width; ++at)
      taken.push_back(std::move(*at));
  values = std::move(taken);
}

}  // namespace zero
