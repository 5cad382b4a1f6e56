#include "zero/data/table_dataset.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/check.h"
#include "zero/base/terminal_text.h"

namespace zero {

TableDataset::TableDataset(const CsvTable& table, std::int64_t begin, std::int64_t end, std::string_view key,
                           std::string_view path)
    : RowDataset(end - begin, key, path), num_columns_(table.num_columns), names_(table.names) {
  ZERO_CHECK(0 <= begin && end <= table.num_rows(), "rows [{}, {}) of {}", begin, end, table.num_rows());
  values_.assign(table.values.begin() + begin * num_columns_, table.values.begin() + end * num_columns_);
}

std::string TableDataset::show(std::int64_t sample, std::size_t columns) const {
  ZERO_CHECK(sample >= 0 && sample < size(), "row {} of {}", sample, size());
  std::string line;
  for (std::int64_t column = 0; column < num_columns_ - 1; ++column) {
    if (column > 0) line += ", ";
    if (!names_.empty()) line += names_[static_cast<std::size_t>(column)] + " = ";
    line += fmt::format("{:.5g}", values_[static_cast<std::size_t>(sample * num_columns_ + column)]);
  }
  return terminal_text(line, columns);
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
