#include "app/data/tables/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/input_file.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/terminal_text.h"

#include "app/data/sample/csv_reader.h"

namespace zero {
namespace {

constexpr std::string_view kColumnsKey = "data.columns";
constexpr std::string_view kLabelKey = "data.label_column";
constexpr std::size_t kColumnsOfNames = 200;

// Returns the whole `field` as a number; empty: it is not a number. A number that is too large for a float, or out of a
// double's range on either side, is returned as infinite. It is a number, and not a word of a header.
std::optional<float> number(std::string_view field) {
  if (!is_number(field)) return std::nullopt;
  if (field.starts_with('+')) field.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return error == std::errc() ? static_cast<float>(value) : std::numeric_limits<float>::infinity();
}

bool is_column_number(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

// Is the line a header? A line with numbers and words is a row, whose words are then reported as errors.
bool is_all_words(const std::vector<CsvReader::Field>& fields) {
  return std::ranges::none_of(fields, [](const CsvReader::Field& field) {
    const std::string_view text = without_blanks(field.text);
    return text.empty() || is_number(text);
  });
}

class Parser {
 public:
  Parser(std::string_view key, std::string_view path, const CsvOptions& options)
      : key_(key), path_(path), options_(options), labels_(options.labels) {}

  void record(const std::vector<CsvReader::Field>& fields) {
    if (num_fields_ == 0) {
      begin(fields);
      if (!header_.empty()) return;
    }
    if (fields.size() != num_fields_)
      throw ConfigError(
          key_, fmt::format("{}:{}", path_, fields.front().line),
          fmt::format("has {}; the lines before have {}", format_count(std::ssize(fields), "column"), num_fields_),
          "correct the line; put a field with commas in quotes");
    for (const std::size_t column : inputs_) table_.values.push_back(input(fields[column], column));
    take_target(fields[target_]);
  }

  CsvTable finish(bool is_empty) {
    if (table_.values.empty())
      throw ConfigError(key_, path_, is_empty ? "the file is empty" : "holds no row of numbers",
                        "give rows of numbers");
    if (are_classes_) {
      table_.classes = std::move(labels_).finish();
      for (std::size_t row = 0; row < table_.classes.labels.size(); ++row)
        table_.values[(row + 1) * static_cast<std::size_t>(table_.num_columns) - 1] =
            static_cast<float>(table_.classes.labels[row]);
    }
    return std::move(table_);
  }

 private:
  void begin(const std::vector<CsvReader::Field>& fields) {
    num_fields_ = fields.size();
    if (num_fields_ < 2)
      throw ConfigError(key_, fmt::format("{}:{}", path_, fields.front().line),
                        "has one column; features and a target take at least two", "separate columns with commas");
    const auto is_name = [](const std::string& column) { return !column.empty() && !is_column_number(column); };
    const bool are_named = is_name(options_.label_column) || std::ranges::any_of(options_.columns, is_name);
    if (are_named || is_all_words(fields))
      for (const CsvReader::Field& field : fields) header_.emplace_back(without_blanks(field.text));
    choose_columns();
    table_.num_columns = std::ssize(inputs_) + 1;
    if (header_.empty()) return;
    for (const std::size_t column : inputs_) table_.names.push_back(header_[column]);
    table_.names.push_back(header_[target_]);
    table_.taken = {.header = header_, .columns = inputs_};
    table_.taken.columns.push_back(target_);
  }

  void choose_columns() {
    if (!header_.empty() && !options_.trained.header.empty()) {
      inputs_ = columns_of_training(options_.trained, header_, key_, path_);
      target_ = inputs_.back();
      inputs_.pop_back();
      return;
    }
    target_ = options_.label_column.empty()
                  ? num_fields_ - 1
                  : column_named(options_.label_column, header_, num_fields_, kLabelKey, path_);
    for (const std::string& name : options_.columns) {
      const std::size_t column = column_named(name, header_, num_fields_, kColumnsKey, path_);
      if (column == target_)
        throw ConfigError(kColumnsKey, name, fmt::format("is the column of the target in {}", path_),
                          "leave it out, or name another data.label_column");
      if (std::ranges::find(inputs_, column) != inputs_.end())
        throw ConfigError(kColumnsKey, name, "is given twice", "name each column once");
      inputs_.push_back(column);
    }
    if (!inputs_.empty()) return;
    for (std::size_t column = 0; column < num_fields_; ++column)
      if (column != target_) inputs_.push_back(column);
  }

  FieldPlace place_of(const CsvReader::Field& field, std::size_t column) const {
    return {path_, field.line, column + 1, header_.empty() ? std::string_view() : header_[column]};
  }

  [[noreturn]] void refuse(const CsvReader::Field& field, std::size_t column, std::string_view reason,
                           std::string_view remedy) const {
    throw ConfigError(key_, fmt::format("{}:{}", path_, field.line),
                      fmt::format("column {}{} holds '{}', {}", column + 1,
                                  header_.empty() ? "" : fmt::format(" ({})", header_[column]),
                                  terminal_text(without_blanks(field.text), 40), reason),
                      remedy);
  }

  float input(const CsvReader::Field& field, std::size_t column) const {
    const auto value = number(without_blanks(field.text));
    if (!value || !std::isfinite(*value))
      refuse(field, column, "which is not a finite number",
             header_.empty() ? "write numbers with a decimal point; a first line without any number is a header"
                             : "write numbers with a decimal point, or name the columns to read with data.columns");
    return *value;
  }

  // The first target decides whether targets are numbers or words.
  void take_target(const CsvReader::Field& field) {
    const std::string_view text = without_blanks(field.text);
    const auto value = number(text);
    if (table_.values.size() == inputs_.size())
      are_classes_ = options_.classes || !options_.labels.names.empty() || (!text.empty() && !value);
    if (are_classes_) {
      labels_.add(text, key_, place_of(field, target_));
      table_.lines.push_back(field.line);
      table_.values.push_back(0);  // finish() sets the class
      return;
    }
    if (!value || !std::isfinite(*value))
      refuse(field, target_, "which is not a finite number",
             "write numbers with a decimal point, or a word in every line: words are classes");
    table_.values.push_back(*value);
  }

  std::string_view key_, path_;
  const CsvOptions& options_;
  LabelWords labels_;
  std::vector<std::string> header_;
  std::size_t num_fields_ = 0, target_ = 0;
  std::vector<std::size_t> inputs_;
  bool are_classes_ = false;
  CsvTable table_;
};

}  // namespace

std::size_t column_named(std::string_view name, const std::vector<std::string>& names, std::size_t num_columns,
                         std::string_view key, std::string_view path) {
  if (const auto found = std::ranges::find(names, name); found != names.end()) {
    if (std::find(found + 1, names.end(), name) != names.end())
      throw ConfigError(key, name, fmt::format("{} has several columns of this name", path),
                        "name it by its number, from 1");
    return static_cast<std::size_t>(found - names.begin());
  }
  std::size_t column = 0;
  if (is_column_number(name)) std::from_chars(name.data(), name.data() + name.size(), column);
  if (column >= 1 && column <= num_columns) return column - 1;
  throw ConfigError(
      key, name, fmt::format("no column of {} has this name", path),
      names.empty()
          ? fmt::format("it has no header: use the column's number, 1 to {}", num_columns)
          : fmt::format("its columns are {}; or use a number, 1 to {}",
                        terminal_text(fmt::format("{}", fmt::join(names, ", ")), kColumnsOfNames), num_columns));
}

std::vector<std::size_t> columns_of_training(const TakenColumns& trained, const std::vector<std::string>& header,
                                             std::string_view key, std::string_view path) {
  if (header == trained.header) return trained.columns;
  std::vector<std::size_t> columns;
  for (const std::size_t column : trained.columns) {
    const std::string& name = trained.header[column];
    const auto found = std::ranges::find(header, name);
    if (found == header.end())
      throw ConfigError(key, path,
                        fmt::format("has no column '{}', which is read from data.path", terminal_text(name, 40)),
                        fmt::format("its columns are {}; give it the column names of data.path",
                                    terminal_text(fmt::format("{}", fmt::join(header, ", ")), kColumnsOfNames)));
    if (std::ranges::count(header, name) > 1 || std::ranges::count(trained.header, name) > 1)
      throw ConfigError(key, path,
                        fmt::format("the column '{}' is there several times, here or in data.path, so its name does "
                                    "not tell which one to read",
                                    terminal_text(name, 40)),
                        "give both files the same header, or each column its own name");
    columns.push_back(static_cast<std::size_t>(found - header.begin()));
  }
  return columns;
}

CsvTable parse_csv(std::string_view text, std::string_view key, std::string_view path, const CsvOptions& options) {
  Parser parser(key, path, options);
  CsvReader reader(text, key, path);
  std::vector<CsvReader::Field> fields;
  while (reader.next(fields)) parser.record(fields);
  return parser.finish(text.empty());
}

CsvTable read_csv(const std::filesystem::path& path, std::string_view key, const CsvOptions& options) {
  require_input_file(key, path);
  return parse_csv(InputFile(path).read_all(), key, path.native(), options);
}

}  // namespace zero
