#include "app/data/sample/class_range.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace zero {
namespace {

using Labels = std::vector<std::int64_t>;

std::string place(std::int64_t i) {
  return "t.tsv:" + std::to_string(i + 2);
}

ClassRange learned(const Labels& labels, std::int64_t classes = 0) {
  ClassRange range(classes);
  range.learn(labels, "data.path", place);
  return range;
}

std::string refusal(const Labels& labels, std::int64_t classes = 0) {
  return message_of<ConfigError>([&] { learned(labels, classes); });
}

std::string held_refusal(const ClassRange& range, const Labels& labels) {
  return message_of<ConfigError>([&] { range.require(labels, "data.validation", place); });
}

// The user gave no number of classes.
TEST(ClassRange, TrainingLabelsMakeTheClasses) {
  const ClassRange range = learned({0, 1, 1, 2});
  EXPECT_EQ(range.note(), "");
  EXPECT_NO_THROW(range.require(Labels{2, 2}, "data.validation", place)) << "held-out labels may be all the same";
  EXPECT_EQ(held_refusal(range, {1, 3}),
            "data.validation = t.tsv:3: the label 3 is held out, and the training part has labels up to 2\n"
            "  mend the label, mix the rows, give training samples of its class, or give data.classes");
}

TEST(ClassRange, EmptyClassNamesLargestLabelsPlace) {
  EXPECT_EQ(
      learned({0, 1, 5, 3}).note(),
      "note: 2 of the 6 classes have no training sample: the largest label is 5, t.tsv:4; data.classes says how many "
      "classes there are");
  EXPECT_TRUE(says(learned({2, 0, 2}).note(),
                   "note: 1 of the 3 classes has no training sample: the largest label is 2, "
                   "t.tsv:2;"));
}

TEST(ClassRange, RefusesMostlyEmptyClasses) {
  EXPECT_EQ(refusal({0, 1, 6, 1}),
            "data.path = t.tsv:4: the label 6 would make 7 classes, of which 3 have samples; the next lower one is 1\n"
            "  mend the label, number the classes from 0 without large gaps, or give data.classes");
}

TEST(ClassRange, GivenNumberRefusesLabelsBeyond) {
  const ClassRange range = learned({0, 1, 6, 1}, /*classes=*/12);
  EXPECT_EQ(range.note(), "") << "with a given number of classes, some may have no sample";
  EXPECT_NO_THROW(range.require(Labels{11}, "data.validation", place));
  EXPECT_TRUE(
      says(held_refusal(range, {0, 12}), "data.validation = t.tsv:3: the label 12 is none of data.classes = 12"));
  EXPECT_EQ(refusal({0, 1, 10, 15}, 10),
            "data.path = t.tsv:4: the label 10 is none of data.classes = 10, which are 0 to 9\n"
            "  mend the label, or give a larger data.classes");
}

TEST(ClassRange, RefusesLabelsOfOneClass) {
  EXPECT_EQ(refusal({1, 1, 1}),
            "data.path = t.tsv:2: all labels are the same: 3 training samples with the label 1, from this one on\n"
            "  give samples of two classes or more; mix rows that are sorted by class");
  EXPECT_TRUE(says(refusal({0}), "all labels are the same: 1 training sample with the label 0"));
  EXPECT_TRUE(says(refusal({0, 0}, 10), "all labels are the same")) << "also if more classes are given";
  EXPECT_TRUE(says(refusal({900000, 900000}), "all labels are the same"));
  EXPECT_NO_THROW(learned({})) << "other code refuses a dataset without samples";
}

}  // namespace
}  // namespace zero
