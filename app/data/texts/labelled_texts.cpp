#include "app/data/texts/labelled_texts.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/input_file.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/terminal_text.h"

#include "app/data/sample/csv_reader.h"
#include "app/data/sample/sample_order.h"

namespace zero {
namespace {

constexpr std::size_t kFewestWords = 5;
constexpr int kMostDraws = 32;  // draws until the order differs

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  for (;;) {
    const auto tab = line.find('\t');
    columns.push_back(line.substr(0, tab));
    if (tab == line.npos) return columns;
    line.remove_prefix(tab + 1);
  }
}

// Calls visit(number, line) for each line that is not empty, without its end and a byte order mark.
template <typename Visit>
void for_each_line(std::string_view bytes, Visit visit) {
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  for (std::int64_t number = 1; !bytes.empty(); ++number) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) visit(number, line);
  }
}

// The rows of a .tsv or .csv with texts.
class TextTable {
 public:
  TextTable(std::string_view key, std::string_view path, const TextColumns& columns)
      : key_(key), path_(path), columns_(columns), labels_(columns.labels) {
    texts_.path = path;
  }

  template <typename Fields>
  void record(std::int64_t line, const Fields& fields) {
    if (header_.empty()) {
      for (const auto& field : fields) header_.emplace_back(without_blanks(field));
      choose_columns(line);
      return;
    }
    if (fields.size() != header_.size())
      throw ConfigError(
          key_, fmt::format("{}:{}", path_, line),
          fmt::format("has {}; the first line has {}", format_count(std::ssize(fields), "column"), header_.size()),
          "each line needs as many as the first");
    labels_.add(without_blanks(fields[label_]), key_, {path_, line, label_ + 1, header_[label_]});
    texts_.texts.emplace_back(fields[text_]);
    texts_.lines.push_back(line);
  }

  LabelledTexts finish() && {
    if (texts_.texts.empty())
      throw ConfigError(
          key_, path_, "holds no text",
          fmt::format("give a table with the columns {} and {}, and rows", columns_.text, columns_.label));
    NamedLabels named = std::move(labels_).finish();
    texts_.labels = std::move(named.labels);
    texts_.classes = std::move(named.names);
    return std::move(texts_);
  }

 private:
  void choose_columns(std::int64_t line) {
    if (columns_.trained.header.empty()) {
      text_ = column_of(columns_.text, line, "data.text_column", TextColumns().text);
      label_ = column_of(columns_.label, line, "data.label_column", TextColumns().label);
    } else {
      const std::vector<std::size_t> same = columns_of_training(columns_.trained, header_, key_, path_);
      text_ = same[0];
      label_ = same[1];
    }
    texts_.taken = {.header = header_, .columns = {text_, label_}};
  }

  // If the column has its default name, the user did not name it, so the error is about the file.
  std::size_t column_of(const std::string& name, std::int64_t line, std::string_view key,
                        const std::string& usual) const {
    if (name == usual && std::ranges::find(header_, name) == header_.end())
      throw ConfigError(key_, fmt::format("{}:{}", path_, line), fmt::format("no column is called '{}'", name),
                        fmt::format("the first line names the columns: {}; {} = NAME says which one to read",
                                    terminal_text(fmt::format("{}", fmt::join(header_, ", ")), 200), key));
    return column_named(name, header_, header_.size(), key, path_);
  }

  std::string_view key_, path_;
  const TextColumns& columns_;
  LabelWords labels_;
  std::vector<std::string> header_;
  std::size_t text_ = 0, label_ = 0;
  LabelledTexts texts_;
};

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char letter : line) {
    const char lower = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    const bool letter_or_digit = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9') ||
                                 static_cast<unsigned char>(lower) >= 0x80;  // a byte of a letter that is not ASCII
    const bool belongs = letter_or_digit || (lower == '\'' && inside);
    const bool stands_alone = !belongs && letter != ' ' && letter != '\t' && letter != '\r';
    if ((belongs && !inside) || stands_alone) words.emplace_back();
    if (belongs || stands_alone) words.back() += lower;
    inside = belongs;
  }
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Returns the words in another order, drawn from (seed, line, draw). Empty if no draw gave another order.
std::string in_another_order(const std::vector<std::string>& words, std::uint64_t seed, std::int64_t line) {
  const std::string usual = joined(words);
  for (int draw = 0; draw < kMostDraws; ++draw) {
    std::vector<std::string> drawn = words;
    for (std::size_t left = drawn.size(); left > 1; --left) {  // Fisher-Yates shuffle
      const auto count = static_cast<std::int64_t>(left);
      const std::int64_t which = (line * kMostDraws + draw) * 65536 + count;
      std::swap(drawn[left - 1], drawn[static_cast<std::size_t>(shuffled_offset(seed, which, count))]);
    }
    if (std::string other = joined(drawn); other != usual) return other;
  }
  return "";
}

std::string whole_file(const std::filesystem::path& path, std::string_view key) {
  require_input_file(key, path);
  return InputFile(path).read_all();
}

}  // namespace

LabelledTexts parse_tsv(std::string_view bytes, std::string_view key, std::string_view path,
                        const TextColumns& columns) {
  TextTable table(key, path, columns);
  for_each_line(bytes, [&](std::int64_t number, std::string_view line) { table.record(number, columns_of(line)); });
  return std::move(table).finish();
}

LabelledTexts read_tsv(const std::filesystem::path& path, std::string_view key, const TextColumns& columns) {
  return parse_tsv(whole_file(path, key), key, path.native(), columns);
}

LabelledTexts parse_csv_texts(std::string_view bytes, std::string_view key, std::string_view path,
                              const TextColumns& columns) {
  TextTable table(key, path, columns);
  CsvReader reader(bytes, key, path);
  std::vector<CsvReader::Field> fields;
  std::vector<std::string_view> texts;
  while (reader.next(fields)) {
    texts.clear();
    for (const CsvReader::Field& field : fields) texts.push_back(field.text);
    table.record(fields.front().line, texts);
  }
  return std::move(table).finish();
}

LabelledTexts read_csv_texts(const std::filesystem::path& path, std::string_view key, const TextColumns& columns) {
  return parse_csv_texts(whole_file(path, key), key, path.native(), columns);
}

LabelledTexts make_word_order_texts(std::string_view bytes, std::uint64_t seed, std::string_view key,
                                    std::string_view path) {
  LabelledTexts texts{.path = std::string(path), .classes = {"shuffled", "as written"}};
  for_each_line(bytes, [&](std::int64_t number, std::string_view line) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() < kFewestWords) return;
    std::string other = in_another_order(words, seed, number);
    if (other.empty()) return;
    texts.texts.push_back(joined(words));
    texts.texts.push_back(std::move(other));
    texts.labels.insert(texts.labels.end(), {1, 0});
    texts.lines.insert(texts.lines.end(), {number, number});
  });
  if (texts.texts.empty())
    throw ConfigError(key, path, fmt::format("no line has {} words", kFewestWords), "Give a text with longer lines.");
  return texts;
}

LabelledTexts word_order_texts(const std::filesystem::path& path, std::uint64_t seed, std::string_view key) {
  return make_word_order_texts(whole_file(path, key), seed, key, path.native());
}

}  // namespace zero
