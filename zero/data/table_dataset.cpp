#include "zero/data/table_dataset.h"

#include <algorithm>

#include "zero/base/check.h"

namespace zero {

TableDataset::TableDataset(const CsvTable& table, std::int64_t begin, std::int64_t end, std::string_view key,
                           std::string_view path)
    : RowDataset(end - begin, key, path), num_columns_(table.num_columns) {
  ZERO_CHECK(0 <= begin && end <= table.num_rows(), "rows [{}, {}) of {}", begin, end, table.num_rows());
  values_.assign(table.values.begin() + begin * num_columns_, table.values.begin() + end * num_columns_);
}

std::int64_t TableDataset::fill(std::span<const std::int64_t> samples, Batch& batch) const {
  const auto rows = static_cast<std::int64_t>(samples.size());
  auto& input = batch.input.reset<float>({rows, num_columns_ - 1});
  auto& target = batch.target.reset<float>({rows, 1});
  auto out = input.begin();
  for (std::size_t row = 0; row < samples.size(); ++row) {
    ZERO_CHECK(samples[row] >= 0 && samples[row] < size(), "row {} of {}", samples[row], size());
    const auto first = values_.begin() + samples[row] * num_columns_;
    out = std::copy_n(first, num_columns_ - 1, out);
    target[row] = first[num_columns_ - 1];
  }
  return rows;
}

}  // namespace zero
