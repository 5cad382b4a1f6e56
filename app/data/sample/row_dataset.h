// RowDataset: base class of datasets whose samples are rows: images, tables and labelled texts.
//
// Rows are drawn without replacement (shuffled) or in order (sequential). Local. Throws ConfigError(key, path) if there
// is no row.
#pragma once

#include <cstdint>
#include <string_view>

#include "zero/base/error/error.h"

#include "app/data/sample/dataset.h"

namespace zero {

class RowDataset : public Dataset {
 public:
  RowDataset(std::int64_t num_rows, std::string_view key, std::string_view path) : num_rows_(num_rows) {
    if (num_rows == 0)
      throw ConfigError(key, path, "leaves no sample", "Give more data, or hold out another part of it.");
  }

  std::int64_t size() const override { return num_rows_; }
  std::int64_t draw(Order order, std::uint64_t seed, std::int64_t g) const override {
    return order == Order::kShuffled ? shuffled_row(seed, g, num_rows_) : g % num_rows_;
  }
  std::int64_t pass_size() const override { return num_rows_; }
  std::int64_t pass_sample(std::int64_t i) const override { return i; }

 private:
  std::int64_t num_rows_;
};

}  // namespace zero
