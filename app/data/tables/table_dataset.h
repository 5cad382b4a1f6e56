// Rows of a table of numbers: all columns but the last are the input, the last is the target, a number or a class.
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
  // A copy of rows [begin, end). `path` is what errors call the table.
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
  std::vector<std::string> names_;  // of columns; empty: they have none
  std::vector<float> values_;
  std::vector<std::int64_t> labels_, lines_;  // empty: targets are numbers
  std::vector<std::string> classes_;          // their names; empty: they have none
};

}  // namespace zero
