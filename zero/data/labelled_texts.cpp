#include "zero/data/labelled_texts.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/base/input_file.h"
#include "zero/data/sample_order.h"

namespace zero {
namespace {

constexpr std::size_t kFewestWords = 5;
constexpr int kMostDraws = 32;  // for an order that is another one

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

[[noreturn]] void refuse_line(std::string_view key, std::string_view path, std::int64_t line, const std::string& reason,
                              std::string_view remedy) {
  throw ConfigError(key, fmt::format("{}:{}", path, line), reason, remedy);
}

std::size_t column_named(std::string_view name, const std::vector<std::string_view>& header, std::string_view key,
                         std::string_view path) {
  const auto found = std::ranges::find(header, name);
  if (found == header.end())
    refuse_line(key, path, 1, fmt::format("no column is called '{}'", name),
                "The first line names the columns: sentence and label, with a tab between them.");
  return static_cast<std::size_t>(found - header.begin());
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char letter : line) {
    const char lower = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    const bool letter_or_digit = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9') ||
                                 static_cast<unsigned char>(lower) >= 0x80;  // a part of any other letter
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

// The words in another order, drawn from (seed, line, draw); empty where no draw found one.
std::string in_another_order(const std::vector<std::string>& words, std::uint64_t seed, std::int64_t line) {
  const std::string usual = joined(words);
  for (int draw = 0; draw < kMostDraws; ++draw) {
    std::vector<std::string> drawn = words;
    for (std::size_t left = drawn.size(); left > 1; --left) {  // Fisher and Yates
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

LabelledTexts parse_tsv(std::string_view bytes, std::string_view key, std::string_view path) {
  LabelledTexts texts{.path = std::string(path)};
  std::vector<std::string_view> header;
  std::size_t sentence = 0, label = 0;
  for_each_line(bytes, [&](std::int64_t number, std::string_view line) {
    const auto columns = columns_of(line);
    if (header.empty()) {
      header = columns;
      sentence = column_named("sentence", header, key, path);
      label = column_named("label", header, key, path);
      return;
    }
    if (columns.size() != header.size())
      refuse_line(
          key, path, number,
          fmt::format("has {}; the first line has {}", format_count(std::ssize(columns), "column"), header.size()),
          "Each line needs as many tabs as the first.");
    const std::string_view digits = columns[label];
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0 || value > 1'000'000)
      refuse_line(key, path, number, fmt::format("'{}' is no class", digits.substr(0, 40)),
                  "A label is a whole number, 0 or more.");
    texts.texts.emplace_back(columns[sentence]);
    texts.labels.push_back(value);
    texts.lines.push_back(number);
  });
  if (header.empty() || texts.texts.empty())
    throw ConfigError(key, path, "holds no text", "Give a table with the columns sentence and label, and rows.");
  return texts;
}

LabelledTexts read_tsv(const std::filesystem::path& path, std::string_view key) {
  return parse_tsv(whole_file(path, key), key, path.native());
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
