#include "app/data/tables/table_dataset.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

const CsvTable kTable = parse_csv("1,2,30\n4,5,60\n7,8,90\n10,11,120\n", "data.path", "t.csv");

const std::vector<float>& floats_of(const Array& array) {
  return std::get<std::vector<float>>(array.values);
}

TEST(TableDataset, TheLastColumnIsTheTarget) {
  const TableDataset data(kTable, 0, 4, "data.path", "t.csv");
  Batch batch;
  EXPECT_EQ(data.fill(std::vector<std::int64_t>{1, 3}, batch), 2);
  EXPECT_EQ(batch.input.shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(batch.target.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(floats_of(batch.input), (std::vector<float>{4, 5, 10, 11}));
  EXPECT_EQ(floats_of(batch.target), (std::vector<float>{60, 120}));
}

TEST(TableDataset, PartCountsFromItsFirstRow) {
  const TableDataset data(kTable, 2, 4, "data.path", "t.csv");
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.shape().features, 2);
  EXPECT_EQ(data.shape().classes, 0);
  Batch batch;
  data.fill(std::vector<std::int64_t>{0}, batch);
  EXPECT_EQ(floats_of(batch.target), (std::vector<float>{90}));
  EXPECT_THROW(data.fill(std::vector<std::int64_t>{2}, batch), InternalError);
}

TEST(TableDataset, SequentialOrderWrapsAround) {
  const TableDataset data(kTable, 0, 4, "data.path", "t.csv");
  for (std::int64_t g = 0; g < 12; ++g) EXPECT_EQ(data.draw(Order::kSequential, 1, g), g % 4);
}

// Each row is visited once in an epoch.
TEST(TableDataset, ShuffledOrderVisitsEachRowOnce) {
  const TableDataset data(kTable, 0, 4, "data.path", "t.csv");
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    std::set<std::int64_t> rows;
    for (std::int64_t i = 0; i < 4; ++i) rows.insert(data.draw(Order::kShuffled, 1, epoch * 4 + i));
    EXPECT_EQ(rows, (std::set<std::int64_t>{0, 1, 2, 3}));
  }
}

TEST(TableDataset, PassVisitsRowsInOrder) {
  const TableDataset data(kTable, 1, 4, "data.path", "t.csv");
  EXPECT_EQ(data.pass_size(), 3);
  EXPECT_EQ(data.pass_sample(2), 2);
}

TEST(TableDataset, ShowsNumbersWithColumnNames) {
  const TableDataset bare(kTable, 1, 4, "data.path", "t.csv");
  EXPECT_EQ(bare.show(0, 60), "4, 5");
  const CsvTable named = parse_csv("width,height,price\n2.25,-3,6.1\n", "data.path", "t.csv");
  const TableDataset data(named, 0, 1, "data.path", "t.csv");
  EXPECT_EQ(data.show(0, 60), "width = 2.25, height = -3");
  EXPECT_EQ(data.show(0, 16), "width = 2.25,...");
  EXPECT_EQ(data.name_of(6.125), "6.125");
  EXPECT_THROW(data.show(1, 60), InternalError);
}

TEST(TableDataset, AnyNumberOfClassesWillDo) {
  EXPECT_NO_THROW(TableDataset(kTable, 0, 4, "data.path", "t.csv").require_classes(1, "model.sizes"));
}

TEST(TableDataset, TargetsMayBeClasses) {
  const CsvTable table = parse_csv("w,kind\n1,b\n2,a\n3,c\n", "data.path", "t.csv");
  const TableDataset data(table, 1, 3, "data.path", "t.csv");
  EXPECT_EQ(data.shape().features, 1);
  EXPECT_EQ(data.shape().classes, 3);
  Batch batch;
  data.fill(std::vector<std::int64_t>{1, 0}, batch);
  EXPECT_EQ(batch.target.shape, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(batch.target.values), (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(floats_of(batch.input), (std::vector<float>{3, 2}));
  EXPECT_EQ(data.name_of(2), "c");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { data.require_classes(2, "model.sizes"); }),
                   "model.sizes = 2: too few classes: t.csv:4 has the label 2"));
}

TEST(TableDataset, NoRowIsRefused) {
  EXPECT_TRUE(says(message_of<ConfigError>([] { TableDataset(kTable, 4, 4, "data.path", "t.csv"); }),
                   "data.path = t.csv: leaves no sample"));
}

}  // namespace
}  // namespace zero
