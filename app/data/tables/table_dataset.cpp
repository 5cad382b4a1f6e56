#include "app/data/tables/table_dataset.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/text/terminal_text.h"

#include "app/data/sample/shown_sample.h"

namespace zero {

TableDataset::TableDataset(const CsvTable& table, std::int64_t begin, std::int64_t end, std::string_view key,
                           std::string_view path)
    : RowDataset(end - begin, key, path),
      path_(path),
      num_columns_(table.num_columns),
      names_(table.names),
      classes_(table.classes.names) {
  ZERO_CHECK(0 <= begin && end <= table.num_rows(), "rows [{}, {}) of {}", begin, end, table.num_rows());
  values_.assign(table.values.begin() + begin * num_columns_, table.values.begin() + end * num_columns_);
  if (table.classes.labels.empty()) return;
  labels_.assign(table.classes.labels.begin() + begin, table.classes.labels.begin() + end);
  lines_.assign(table.lines.begin() + begin, table.lines.begin() + end);
}

SampleShape TableDataset::shape() const {
  return {.features = num_columns_ - 1, .classes = labels_.empty() ? 0 : *std::ranges::max_element(labels_) + 1};
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

std::string TableDataset::name_of(double target) const {
  return labels_.empty() ? Dataset::name_of(target) : shown_class(classes_, static_cast<std::int64_t>(target));
}

std::int64_t TableDataset::fill(std::span<const std::int64_t> samples, Batch& batch) const {
  const auto rows = static_cast<std::int64_t>(samples.size());
  auto& input = batch.input.reset<float>({rows, num_columns_ - 1});
  auto out = input.begin();
  for (const std::int64_t sample : samples) {
    ZERO_CHECK(sample >= 0 && sample < size(), "row {} of {}", sample, size());
    out = std::copy_n(values_.begin() + sample * num_columns_, num_columns_ - 1, out);
  }
  if (labels_.empty()) {
    auto& target = batch.target.reset<float>({rows, 1});
    for (std::size_t row = 0; row < samples.size(); ++row)
      target[row] = values_[static_cast<std::size_t>((samples[row] + 1) * num_columns_ - 1)];
  } else {
    auto& target = batch.target.reset<std::int64_t>({rows});
    for (std::size_t row = 0; row < samples.size(); ++row)
      target[row] = labels_[static_cast<std::size_t>(samples[row])];
  }
  return rows;
}

void TableDataset::require_classes(std::int64_t classes, std::string_view key) const {
  const auto found = std::ranges::find_if(labels_, [&](std::int64_t label) { return label >= classes; });
  if (found == labels_.end()) return;
  throw ConfigError(key, fmt::format("{}", classes),
                    fmt::format("too few classes: {}:{} has the label {}", path_,
                                lines_[static_cast<std::size_t>(found - labels_.begin())], *found),
                    fmt::format("the data needs at least {}", shape().classes));
}

}  // namespace zero
