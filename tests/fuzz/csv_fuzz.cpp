// Any bytes as a table: a ConfigError that fits one screen, or finite values in rows of equal length. Names are not
// numbers. The table is equal after it is printed and read.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/error/error.h"

#include "app/data/tables/csv.h"

namespace {

using namespace zero;

void require(bool holds) {
  if (!holds) std::abort();
}

// Whether the C library accepts this as a decimal number of any size.
bool is_decimal(const std::string& name) {
  if (name.find_first_not_of("0123456789+-.eE") != name.npos) return false;
  char* end = nullptr;
  std::strtod(name.c_str(), &end);
  return end == name.c_str() + name.size();
}

std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char letter : name) text += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return text + '"';
}

std::string printed(const CsvTable& table) {
  std::string text = "\xef\xbb\xbf";  // the first name may begin with this mark
  for (std::size_t i = 0; i < table.names.size(); ++i) text += (i == 0 ? "" : ",") + quoted(table.names[i]);
  if (!table.names.empty()) text += '\n';
  const auto width = static_cast<std::size_t>(table.num_columns);
  for (std::size_t i = 0; i < table.values.size(); ++i)
    text += fmt::format("{}{}", table.values[i], (i + 1) % width == 0 ? '\n' : ',');
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  CsvTable table;
  try {
    table = parse_csv(std::string_view(reinterpret_cast<const char*>(data), size), "data.path", "fuzz");
  } catch (const ConfigError& error) {
    const std::string_view message = error.what();
    require(message.starts_with("data.path = fuzz") && message.size() < 2000);
    return 0;
  }
  require(table.num_columns >= 2 && table.num_rows() >= 1);
  require(table.num_rows() * table.num_columns == static_cast<std::int64_t>(table.values.size()));
  require(std::ranges::all_of(table.values, [](float value) { return std::isfinite(value); }));
  require(table.names.empty() || static_cast<std::int64_t>(table.names.size()) == table.num_columns);
  require(std::ranges::none_of(table.names, is_decimal));

  const CsvTable same = parse_csv(printed(table), "data.path", "fuzz");
  require(same.names == table.names && same.num_columns == table.num_columns && same.values == table.values);
  return 0;
}
