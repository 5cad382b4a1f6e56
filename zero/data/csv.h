// CsvTable: a table of numbers from comma-separated text.
//
//   width,height,price        an optional header: every field a word, none a number or empty
//   2.0, 3, 6.1               spaces around a number are ignored, as are empty lines, \r and a byte order mark
//
// Strict otherwise: each field is one decimal number that a double holds and that is finite as a float, every line has
// as many as the first, and there are two columns or more. ConfigError(key, "path:line") names line and column; IoError
// where the file cannot be read. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

struct CsvTable {
  std::vector<std::string> names;  // empty without a header
  std::int64_t num_columns = 0;
  std::vector<float> values;  // row after row
  std::int64_t num_rows() const {
    return num_columns == 0 ? 0 : static_cast<std::int64_t>(values.size()) / num_columns;
  }
};

CsvTable parse_csv(std::string_view text, std::string_view key, std::string_view path);
CsvTable read_csv(const std::filesystem::path& path, std::string_view key);

}  // namespace zero
