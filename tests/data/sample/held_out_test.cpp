#include "app/data/sample/held_out.h"

#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers held_labels(const Numbers& labels, const HeldOut& held) {
  Numbers ordered = labels;
  take_in_order(ordered, held.order);
  return {ordered.end() - held.count, ordered.end()};
}

TEST(HeldOut, ShareIsRoundedAndLeavesSome) {
  EXPECT_EQ(held_out_of_class(0.25, 8), 2);
  EXPECT_EQ(held_out_of_class(0.25, 10), 3) << "2.5";
  EXPECT_EQ(held_out_of_class(0.25, 9), 2) << "2.25";
  EXPECT_EQ(held_out_of_class(0.1, 2), 1) << "at least one";
  EXPECT_EQ(held_out_of_class(0.99, 2), 1) << "at most all but one";
  EXPECT_EQ(held_out_of_class(0.9, 1), 0) << "a single sample is trained on";
  EXPECT_EQ(held_out_of_class(0, 8), 0);
}

// For random labels, sizes and fractions, each class has its share, and each sample is in one part.
TEST(HeldOut, EachClassHasItsShare) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    Numbers labels(1 + random() % 60);
    for (auto& label : labels) label = random() % 5;
    const double fraction = static_cast<double>(1 + random() % 99) / 100;
    const HeldOut held = hold_out_classes(labels, fraction, /*in_file_order=*/false);
    std::map<std::int64_t, std::int64_t> all, out;
    for (const auto label : labels) ++all[label];
    for (const auto label : held_labels(labels, held)) ++out[label];
    for (const auto& [label, samples] : all) EXPECT_EQ(out[label], held_out_of_class(fraction, samples));
    Numbers sorted = held.order;
    std::ranges::sort(sorted);
    Numbers each(labels.size());
    std::iota(each.begin(), each.end(), 0);
    EXPECT_EQ(sorted, each);
  }
}

TEST(HeldOut, HoldsOutLastSamplesInOrder) {
  const Numbers labels{0, 0, 0, 0, 1, 1, 1, 1};
  const HeldOut held = hold_out_classes(labels, 0.5, /*in_file_order=*/true);
  EXPECT_EQ(held.count, 4);
  EXPECT_EQ(held.order, (Numbers{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(HeldOut, FairEndOfAFileStays) {
  EXPECT_TRUE(hold_out_classes(Numbers{0, 1, 0, 1, 0, 1, 0, 1}, 0.25, true).order.empty());
  EXPECT_EQ(hold_out_classes(Numbers{0, 1, 0, 1, 0, 1, 0, 1}, 0.25, true).count, 2);
  EXPECT_FALSE(hold_out_classes(Numbers{0, 1, 0, 1, 0, 1, 1, 1}, 0.25, true).order.empty()) << "none of class 0";
  EXPECT_FALSE(hold_out_classes(Numbers{0, 1, 0, 1, 0, 1, 0, 7}, 0.25, true).order.empty()) << "the only one of 7";
}

TEST(HeldOut, KeepsSingleSamplesForTraining) {
  EXPECT_EQ(hold_out_classes(Numbers{0, 1, 2}, 0.5, true).count, 0);
  EXPECT_EQ(hold_out_classes(Numbers{0, 0}, 0, false).count, 0);
}

TEST(HeldOut, RowsMoveWhole) {
  std::vector<std::string> values{"a", "b", "c", "d", "e", "f"};
  take_in_order(values, Numbers{2, 0, 1}, 2);
  EXPECT_EQ(values, (std::vector<std::string>{"e", "f", "a", "b", "c", "d"}));
  take_in_order(values, Numbers{}, 2);
  EXPECT_EQ(values.front(), "e");
}

}  // namespace
}  // namespace zero
