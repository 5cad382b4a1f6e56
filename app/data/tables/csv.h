// CsvTable: a table of numbers from comma-separated text (csv_reader.h), and a target: a number, or a class.
//
//   width,height,price        an optional header: every field a word, none a number or empty
//   2.0, 3, 6.1               blanks around a number are ignored
//
//   read_csv("iris.csv", "data.path", {.columns = {"petal_width", "petal_length"}, .label_column = "species"})
//
// Each input is one decimal number that a double holds and that is finite as a float. The target is the last column, or
// the one that is named. Words are classes (label_words.h), as are whole numbers if `classes` says so or names are given;
// other numbers are targets. Without a header a column's name is its number, from 1. Every line has as many columns as
// the first, two or more. ConfigError(key, "path:line: column N (NAME)"), or under data.columns, data.label_column or
// data.labels; IoError where the file cannot be read. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/sample/label_words.h"

namespace zero {

struct CsvOptions {
  std::vector<std::string> columns{};  // the inputs, in this order; empty: all but the target
  std::string label_column{};          // the target; empty: the last
  bool classes = false;                // whole numbers are classes
  LabelRule labels{};
};

struct CsvTable {
  std::vector<std::string> names;     // of the inputs, then the target; empty without a header
  std::int64_t num_columns = 0;       // inputs and target
  std::vector<float> values;          // row after row, the target last: of a class its number
  NamedLabels classes{};              // without labels: targets are numbers
  std::vector<std::int64_t> lines{};  // of each row, if targets are classes

  std::int64_t num_rows() const {
    return num_columns == 0 ? 0 : static_cast<std::int64_t>(values.size()) / num_columns;
  }
};

CsvTable parse_csv(std::string_view text, std::string_view key, std::string_view path, const CsvOptions& options = {});
CsvTable read_csv(const std::filesystem::path& path, std::string_view key, const CsvOptions& options = {});

// The place of a named column, from 0. `names`: of the header, or empty. Throws ConfigError(key, name) with the columns
// that are there.
std::size_t column_named(std::string_view name, const std::vector<std::string>& names, std::size_t num_columns,
                         std::string_view key, std::string_view path);

}  // namespace zero
