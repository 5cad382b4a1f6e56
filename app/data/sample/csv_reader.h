// CsvReader: reads the records of comma-separated text (RFC 4180).
//
//   CsvReader reader("text,label\r\n\"a, \"\"b\"\"\nc\",1\r\n", "data.path", "reviews.csv");
//   std::vector<CsvReader::Field> fields;
//   while (reader.next(fields)) ...       // {"text", "label"}, then {"a, \"b\"\nc", "1"}
//
// A field in quotes may contain commas, line breaks and doubled quotes. Lines end with \n or \r\n. Empty lines and a
// byte order mark are ignored. Blanks around a field in quotes are ignored; other fields keep their blanks.
//
// Local. Throws ConfigError(key, "path:line: column N") if a quote is never closed, if text follows a closing quote, or
// if a field without quotes contains a quote.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

class CsvReader {
 public:
  struct Field {
    std::string_view text;  // valid until the next record is read
    std::int64_t line = 0;  // the field's first line, from 1
  };

  // The text must outlive the reader.
  CsvReader(std::string_view text, std::string_view key, std::string_view path);

  // Reads the next record, which has one or more fields. Returns false at the end.
  bool next(std::vector<Field>& fields);

 private:
  bool skip_empty_lines();
  Field field(std::size_t column);
  Field quoted(std::size_t column);
  void skip_blanks();
  [[noreturn]] void refuse(std::int64_t line, std::size_t column, std::string_view reason,
                           std::string_view remedy) const;

  std::string_view text_, key_, path_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::deque<std::string> unquoted_;  // fields of this record that had doubled quotes
};

// The place of a field in a table, for messages.
struct FieldPlace {
  std::string_view path;
  std::int64_t line = 0;
  std::size_t column = 0;      // from 1
  std::string_view name = {};  // name of the column; empty: it has no name

  std::string text() const;  // "reviews.csv:2: column 3 (price)"
};

// Returns the text without blanks at both ends.
std::string_view without_blanks(std::string_view text);

}  // namespace zero
