#include "app/data/sample/csv_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

constexpr std::string_view kBlanks = " \t\r";

}  // namespace

CsvReader::CsvReader(std::string_view text, std::string_view key, std::string_view path)
    : text_(text), key_(key), path_(path) {
  if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
}

bool CsvReader::next(std::vector<Field>& fields) {
  fields.clear();
  unquoted_.clear();
  if (!skip_empty_lines()) return false;
  for (;;) {
    fields.push_back(field(fields.size() + 1));
    if (at_ == text_.size()) return true;
    const char end = text_[at_++];
    if (end == ',') continue;
    ++line_;
    return true;
  }
}

bool CsvReader::skip_empty_lines() {
  while (at_ < text_.size()) {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    if (text_.substr(at_, end - at_).find_first_not_of(kBlanks) != std::string_view::npos) return true;
    at_ = std::min(end + 1, text_.size());
    ++line_;
  }
  return false;
}

void CsvReader::skip_blanks() {
  at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
}

CsvReader::Field CsvReader::field(std::size_t column) {
  const std::size_t begin = at_;
  skip_blanks();
  if (at_ < text_.size() && text_[at_] == '"') return quoted(column);
  at_ = std::min(text_.find_first_of(",\n\"", begin), text_.size());
  if (at_ < text_.size() && text_[at_] == '"')
    refuse(line_, column, "has a quote within a field that does not begin with one",
           "put the whole field in quotes, and double each quote within it");
  std::string_view text = text_.substr(begin, at_ - begin);
  if (text.ends_with('\r') && (at_ == text_.size() || text_[at_] == '\n')) text.remove_suffix(1);
  return {text, line_};
}

CsvReader::Field CsvReader::quoted(std::size_t column) {
  const std::int64_t first_line = line_;
  std::string* held = nullptr;  // the field up to its last doubled quote
  std::size_t begin = ++at_;
  for (;;) {
    const std::size_t quote = text_.find('"', at_);
    if (quote == std::string_view::npos)
      refuse(first_line, column, "opens a quote that is never closed",
             "close it before the next comma or line, and double each quote within the field");
    line_ += std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                        text_.begin() + static_cast<std::ptrdiff_t>(quote), '\n');
    at_ = quote + 1;
    const bool doubled = at_ < text_.size() && text_[at_] == '"';
    std::string_view part = text_.substr(begin, quote - begin + (doubled ? 1 : 0));
    if (doubled && held == nullptr) held = &unquoted_.emplace_back();
    if (held != nullptr) {
      *held += part;
      part = *held;
    }
    if (doubled) {
      begin = ++at_;
      continue;
    }
    skip_blanks();
    if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n')
      refuse(line_, column, "has text after its closing quote", "double each quote within a field");
    return {part, first_line};
  }
}

void CsvReader::refuse(std::int64_t line, std::size_t column, std::string_view reason, std::string_view remedy) const {
  throw ConfigError(key_, fmt::format("{}:{}", path_, line), fmt::format("column {} {}", column, reason), remedy);
}

std::string FieldPlace::text() const {
  return fmt::format("{}:{}: column {}{}", path, line, column, name.empty() ? "" : fmt::format(" ({})", name));
}

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace zero
