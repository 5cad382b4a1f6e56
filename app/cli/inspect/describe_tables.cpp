#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/input_file.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/terminal_text.h"

#include "app/cli/inspect/description.h"
#include "app/data/sample/csv_reader.h"
#include "app/data/sample/label_words.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostDifferent = 1000;  // words of a column that are told apart
constexpr std::size_t kMostClasses = 100;     // more words are no classes, but texts

std::string whole_file(const fs::path& path) {
  require_input_file("FILE", path);
  return InputFile(path).read_all();
}

// A column, as far as it tells what to do with the table.
struct Column {
  std::string name;
  std::int64_t numbers = 0, others = 0;
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  std::set<std::string, std::less<>> different;  // of those that are no numbers, up to kMostDifferent
  std::size_t longest = 0;                       // bytes

  bool is_of_numbers() const { return others == 0; }
  bool is_of_texts() const { return others > 0 && (different.size() > kMostClasses || longest > 60); }
  double mean() const { return sum / static_cast<double>(std::max<std::int64_t>(1, numbers)); }

  void add(std::string_view field) {
    field = without_blanks(field);
    if (is_number(field)) {
      const double value = std::strtod(std::string(field).c_str(), nullptr);
      smallest = std::min(smallest, value);
      largest = std::max(largest, value);
      sum += value;
      ++numbers;
      return;
    }
    ++others;
    longest = std::max(longest, field.size());
    if (different.size() < kMostDifferent && !different.contains(field)) different.emplace(field);
  }
};

class Columns {
 public:
  explicit Columns(const fs::path& path) : path_(path) {}

  template <typename Fields>
  void record(std::int64_t line, const Fields& fields) {
    if (columns_.empty()) {
      columns_.resize(std::size(fields));
      const bool is_header = std::ranges::none_of(fields, [](std::string_view field) {
        return without_blanks(field).empty() || is_number(without_blanks(field));
      });
      for (std::size_t i = 0; i < columns_.size(); ++i)
        columns_[i].name = is_header ? std::string(without_blanks(fields[i])) : fmt::format("column {}", i + 1);
      has_header_ = is_header;
      if (is_header) return;
    }
    if (std::size(fields) != columns_.size())
      throw ConfigError(
          "FILE", fmt::format("{}:{}", path_.string(), line),
          fmt::format("has {}; the lines before have {}", format_count(std::ssize(fields), "column"), columns_.size()),
          "correct the line");
    for (std::size_t i = 0; i < columns_.size(); ++i) columns_[i].add(fields[i]);
    ++rows_;
  }

  Description describe(std::string_view kind, std::string_view form) const {
    if (rows_ == 0) throw ConfigError("FILE", path_.string(), "holds no row", "give rows");
    Description out;
    out.text = fmt::format("{}: {}, {}, {}; {}\n", path_.string(), form, format_count(rows_, "row"),
                           format_count(std::ssize(columns_), "column"), use(kind));
    auto columns = Json::array();
    for (const Column& column : columns_) {
      Json json{{"name", column.name}};
      if (column.is_of_numbers()) {
        out.text += fmt::format("  {:<24} {:>12.6g} to {:<12.6g} mean {:.6g}\n", terminal_text(column.name, 60),
                                column.smallest, column.largest, column.mean());
        json["smallest"] = column.smallest;
        json["largest"] = column.largest;
        json["mean"] = column.mean();
      } else {
        const bool more = column.different.size() == kMostDifferent;
        out.text +=
            fmt::format("  {:<24} {}{} different{}\n", terminal_text(column.name, 60),
                        format_count(std::ssize(column.different)), more ? " or more" : "",
                        column.numbers > 0 ? fmt::format(", and {}", format_count(column.numbers, "number")) : "");
        json["different"] = column.different.size();
        json["numbers"] = column.numbers;
      }
      columns.push_back(std::move(json));
    }
    out.json = {{"kind", kind}, {"path", path_.string()}, {"rows", rows_}, {"columns", columns}};
    return out;
  }

 private:
  // The name of the first column for which `holds`; nothing: no column.
  template <typename Holds>
  std::optional<std::string> first(Holds holds) const {
    const auto found = std::ranges::find_if(columns_, holds);
    if (found == columns_.end()) return std::nullopt;
    return has_header_ ? found->name : fmt::format("{}", found - columns_.begin() + 1);
  }

  // What to do with the table.
  std::string use(std::string_view kind) const {
    const auto text = first([](const Column& column) { return column.is_of_texts(); });
    if (kind == "csv" && !text) {
      const bool numbers = std::ranges::all_of(columns_.begin(), columns_.end() - 1, &Column::is_of_numbers);
      if (numbers && columns_.back().is_of_numbers()) return "the last is the target";
      if (numbers) return "the last is the class";
      return "name the inputs and the target with data.columns and data.label_column";
    }
    const auto has = [&](std::string_view name) {
      return std::ranges::find(columns_, name, &Column::name) != columns_.end();
    };
    const bool is_usual = kind == "tsv" && has("sentence") && has("label");
    const auto label =
        has("label") ? std::optional<std::string>("label")
                     : first([](const Column& column) { return !column.is_of_texts() && !column.is_of_numbers(); });
    std::string keys = fmt::format("[data] kind = \"{}\", path = \"{}\"", kind, path_.string());
    if (!is_usual && text) keys += fmt::format(", text_column = \"{}\"", terminal_text(*text));
    if (!is_usual && label && *label != "label") keys += fmt::format(", label_column = \"{}\"", terminal_text(*label));
    return "use it with: " + keys;
  }

  const fs::path& path_;
  std::vector<Column> columns_;
  bool has_header_ = false;
  std::int64_t rows_ = 0;
};

// The names of an object's values, those of strings first.
std::vector<std::string> strings_in(const Json& row) {
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items())
    if (value.is_string()) names.push_back(name);
  return names;
}

}  // namespace

Description describe_csv(const fs::path& path) {
  const std::string bytes = whole_file(path);
  const std::string name = path.string();
  CsvReader reader(bytes, "FILE", name);
  Columns columns(path);
  std::vector<CsvReader::Field> fields;
  std::vector<std::string_view> texts;
  while (reader.next(fields)) {
    texts.clear();
    for (const CsvReader::Field& field : fields) texts.push_back(field.text);
    columns.record(fields.front().line, texts);
  }
  return columns.describe("csv", "CSV");
}

Description describe_tsv(const fs::path& path) {
  const std::string bytes = whole_file(path);
  std::string_view rest = bytes;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  Columns columns(path);
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::vector<std::string_view> fields;
    for (;;) {
      const auto tab = line.find('\t');
      fields.push_back(line.substr(0, tab));
      if (tab == std::string_view::npos) break;
      line.remove_prefix(tab + 1);
    }
    columns.record(number, fields);
  }
  return columns.describe("tsv", "TSV");
}

bool begins_with_json_line(std::string_view bytes) {
  const Json row = Json::parse(bytes.substr(0, bytes.find('\n')), nullptr, /*allow_exceptions=*/false);
  return row.is_object();
}

Description describe_json_lines(const fs::path& path) {
  const std::string bytes = whole_file(path);
  Json first;
  std::int64_t rows = 0, number = 1;
  for (std::string_view rest = bytes; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = without_blanks(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_discarded())
      throw ConfigError("FILE", fmt::format("{}:{}", path.string(), number), "is not a line of JSON",
                        "correct the line");
    if (rows++ == 0) first = std::move(row);
  }
  std::vector<std::string> keys;
  if (first.is_object())
    for (const auto& [name, value] : first.items()) keys.push_back(fmt::format("{} ({})", name, value.type_name()));
  const auto strings = first.is_object() ? strings_in(first) : std::vector<std::string>();
  const std::string text = strings.empty() ? "text" : strings.front();
  const std::string stem = fs::path(path).replace_extension("").string(), file = path.string();
  Description out;
  out.text = fmt::format("{}: JSON lines, {}; keys: {}\n", file, format_count(rows, "row"),
                         terminal_text(fmt::format("{}", fmt::join(keys, ", ")), 200));
  out.text += fmt::format(
      "  no data.kind reads JSON lines. For a language model write the texts, and then tokens (data.kind tokens):\n"
      "    jq -j '.{0} + \"<|endoftext|>\"' {1} > {2}.txt\n"
      "    zero tokenize {2}.txt --tokenizer FOLDER -o {2}.bin\n"
      "  For a classifier write a table (data.kind csv, with text_column = \"text\"):\n"
      "    (echo text,label; jq -r '[.{0}, .label] | @csv' {1}) > {2}.csv\n",
      terminal_text(text), file, stem);
  out.json = {{"kind", "json_lines"}, {"path", file}, {"rows", rows}, {"keys", keys}};
  return out;
}

}  // namespace zero::cli
