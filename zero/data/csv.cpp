#include "zero/data/csv.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/base/input_file.h"

namespace zero {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const auto comma = line.find(',');
    fields.push_back(trimmed(line.substr(0, comma)));
    if (comma == line.npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

// All of `field` as one number; empty when it is none. What is too large for a float comes back infinite, as does what
// no double can hold, however small: it is a number, and no word of a header.
std::optional<float> number(std::string_view field) {
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (end != field.data() + field.size() || error == std::errc::invalid_argument) return std::nullopt;
  return error == std::errc() ? static_cast<float>(value) : std::numeric_limits<float>::infinity();
}

class Parser {
 public:
  Parser(std::string_view key, std::string_view path) : key_(key), path_(path) {}

  void line(std::string_view text) {
    ++line_;
    if (trimmed(text).empty()) return;
    const auto fields = split(text);
    const auto count = static_cast<std::int64_t>(fields.size());
    if (table_.num_columns == 0) {
      if (count < 2) refuse("has one column; features and a target take at least two", "Separate columns with commas.");
      table_.num_columns = count;
      if (header(fields)) return;
    }
    if (count != table_.num_columns)
      refuse(fmt::format("has {}; the lines before have {}", format_count(count, "column"), table_.num_columns),
             "Put the line right.");
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto value = number(fields[i]);
      if (!value || !std::isfinite(*value))
        refuse(fmt::format("column {} holds '{}', which is not a finite number", i + 1, fields[i].substr(0, 40)),
               "Write numbers with a decimal point and no quotes; a header may stand on the first line only.");
      table_.values.push_back(*value);
    }
  }

  CsvTable finish() {
    if (table_.values.empty())
      throw ConfigError(key_, path_, line_ == 0 ? "the file is empty" : "holds no row of numbers",
                        "Give rows of numbers.");
    return std::move(table_);
  }

 private:
  // A line with some numbers and some words is a mistake to report, not a header to skip.
  bool header(const std::vector<std::string_view>& fields) {
    for (const auto field : fields)
      if (field.empty() || number(field)) return false;
    table_.names.assign(fields.begin(), fields.end());
    return true;
  }

  [[noreturn]] void refuse(const std::string& reason, std::string_view remedy) const {
    throw ConfigError(key_, fmt::format("{}:{}", path_, line_), reason, remedy);
  }

  std::string_view key_;
  std::string_view path_;
  std::int64_t line_ = 0;
  CsvTable table_;
};

}  // namespace

CsvTable parse_csv(std::string_view text, std::string_view key, std::string_view path) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Parser parser(key, path);
  while (!text.empty()) {
    const auto end = text.find('\n');
    parser.line(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return parser.finish();
}

CsvTable read_csv(const std::filesystem::path& path, std::string_view key) {
  require_input_file(key, path);
  return parse_csv(InputFile(path).read_all(), key, path.native());
}

}  // namespace zero
