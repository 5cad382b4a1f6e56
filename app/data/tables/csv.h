// CsvTable: inputs and a target from comma-separated text (csv_reader.h). A target is a number or a class.
//
//   width,height,price        an optional header: every field is a word, not a number and not empty
//   2.0, 3, 6.1               blanks around a number are ignored
//
//   read_csv("iris.csv", "data.path", {.columns = {"petal_width", "petal_length"}, .label_column = "species"})
//
// An input is a decimal number within the range of a double, and finite as a float. The target is the named column, or
// the last. Words are classes (label_words.h). Whole numbers are also classes if `classes` is true or names are given.
// Without a header, a column's name is its number, from 1. Every line has as many columns as the first line, at least
// two. The columns of held-out data are found by the names of the training data's columns, if both have a header.
//
// Local. Throws ConfigError(key, "path:line: column N (NAME)"), or under data.columns, data.label_column or
// data.labels. Throws IoError if the file cannot be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/sample/held_out.h"
#include "app/data/sample/label_words.h"

namespace zero {

// The columns that were read from a file.
struct TakenColumns {
  std::vector<std::string> header{};   // names of all columns; empty: no header
  std::vector<std::size_t> columns{};  // indices of the columns that were read, from 0, in their order
};

struct CsvOptions {
  std::vector<std::string> columns{};  // the inputs, in this order; empty: all columns but the target
  std::string label_column{};          // the target; empty: the last column
  bool classes = false;                // are whole numbers classes?
  LabelRule labels{};
  TakenColumns trained{};  // of held-out data: the columns of the training data; without a header: not used
};

struct CsvTable {
  std::vector<std::string> names;     // names of the inputs, then of the target; empty: no header
  std::int64_t num_columns = 0;       // number of inputs and target
  std::vector<float> values;          // row by row; the target is last: a number, or the number of a class
  NamedLabels classes{};              // classes of the rows; without labels: targets are numbers
  std::vector<std::int64_t> lines{};  // line of each row, if targets are classes
  TakenColumns taken{};               // columns of the inputs, then of the target

  std::int64_t num_rows() const {
    return num_columns == 0 ? 0 : static_cast<std::int64_t>(values.size()) / num_columns;
  }
  // Reorders the rows: `order` has their indices in the new order. An empty order changes nothing.
  void reorder(const std::vector<std::int64_t>& order) {
    take_in_order(values, order, num_columns);
    take_in_order(classes.labels, order);
    take_in_order(lines, order);
  }
};

CsvTable parse_csv(std::string_view text, std::string_view key, std::string_view path, const CsvOptions& options = {});
CsvTable read_csv(const std::filesystem::path& path, std::string_view key, const CsvOptions& options = {});

// Returns the index of a column, from 0. `names`: the names in the header, or empty. Throws ConfigError(key, name) that
// lists the columns if there is no such column.
std::size_t column_named(std::string_view name, const std::vector<std::string>& names, std::size_t num_columns,
                         std::string_view key, std::string_view path);

// Returns the indices of the columns in held-out data that have the names of the training data's columns, in their
// order. Throws ConfigError(key, path) that names the column if the header lacks it, or has its name twice.
std::vector<std::size_t> columns_of_training(const TakenColumns& trained, const std::vector<std::string>& header,
                                             std::string_view key, std::string_view path);

}  // namespace zero
