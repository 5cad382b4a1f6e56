// held_out(), hold_out_classes(): the samples that a fraction of data.validation holds out.
//
//   held_out(0.1, 1'115'394)                                  // 111,540 tokens or rows: the end of the data
//   held_out_of_class(0.25, 8)                                // 2 samples of a class of 8
//   HeldOut held = hold_out_classes(labels, 0.25, /*in_file_order=*/true);
//   take_in_order(texts, held.order);                         // the training part, then held.count held-out samples
//
// Without classes it is ceil(n * fraction), from the end, as nanoGPT cuts its 90/10. With classes it is n * fraction of each
// class with n samples, rounded to the nearest, but at least 1 and at most n - 1; a single sample is trained on. Those are the
// last samples of the class. A file keeps to its end, as without classes, if that has between half and twice as many of
// each class, and leaves some of each. Values; Local.
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
  std::vector<std::int64_t> order{};  // of the samples, each part in the order of the data; empty: as they are
};

// `in_file_order`: the samples have an order that may mean something, such as time. Count is 0 for a fraction of 0, and if
// no class has two samples.
HeldOut hold_out_classes(std::span<const std::int64_t> labels, double fraction, bool in_file_order);

// Brings rows of `width` values into another order; an empty order leaves them.
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
