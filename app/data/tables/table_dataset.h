// TableDataset: the rows of a table of numbers.
//
//   TableDataset train(read_csv("iris.csv", "data.path"), 0, 120, "data.path", "iris.csv");
//
// The last column is the target: a number, or a class. The other columns are the input. Local.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/sample/row_dataset.h"
#include "app/data/tables/csv.h"

namespace zero {

class TableDataset : public RowDataset {
 public:
  // Copies rows [begin, end). `path` is the table's name in messages.
  TableDataset(const CsvTable& table, std::int64_t begin, std::int64_t end, std::string_view key,
               std::string_view path);

  SampleShape shape() const override;
  std::string show(std::int64_t sample, std::size_t columns) const override;
  std::string name_of(double target) const override;
  std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const override;
  void require_classes(std::int64_t classes, std::string_view key) const override;

 private:
  std::string path_;
  std::int64_t num_columns_;
  std::vector<std::string> names_;  // names of the columns; empty: they have no names
  std::vector<float> values_;
  std::vector<std::int64_t> labels_, lines_;  // empty: targets are numbers
  std::vector<std::string> classes_;          // names of the classes; empty: they have no names
};

}  // namespace zero
