// Rows of a table of numbers: all columns but the last are the input, the last is the target.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zero/data/csv.h"
#include "zero/data/row_dataset.h"

namespace zero {

class TableDataset : public RowDataset {
 public:
  // A copy of rows [begin, end). `path` is what errors call the table.
  TableDataset(const CsvTable& table, std::int64_t begin, std::int64_t end, std::string_view key,
               std::string_view path);

  SampleShape shape() const override { return {.features = num_columns_ - 1}; }
  std::string show(std::int64_t sample, std::size_t columns) const override;
  std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const override;
  void require_classes(std::int64_t, std::string_view) const override {}  // targets are numbers

 private:
  std::int64_t num_columns_;
  std::vector<std::string> names_;  // of columns; empty: they have none
  std::vector<float> values_;
};

}  // namespace zero
