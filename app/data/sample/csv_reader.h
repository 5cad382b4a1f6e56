// CsvReader: the records of comma-separated text, as RFC 4180 has them.
//
//   CsvReader reader("text,label\r\n\"a, \"\"b\"\"\nc\",1\r\n", "data.path", "reviews.csv");
//   std::vector<CsvReader::Field> fields;
//   while (reader.next(fields)) ...       // {"text", "label"}, then {"a, \"b\"\nc", "1"}
//
// A field in quotes may hold commas, line breaks and doubled quotes. Lines end with \n or \r\n; empty lines and a byte
// order mark are passed over. Blanks around a field in quotes do not count; those of another field are kept.
// Throws ConfigError(key, "path:line: column N") for a quote that is never closed, for text after a closing quote, and
// for a quote within a field that does not begin with one. Local.
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
    std::int64_t line = 0;  // its first line, from 1
  };

  // The text must outlive the reader.
  CsvReader(std::string_view text, std::string_view key, std::string_view path);

  // The next record, of one field or more; false: there is none.
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

// A field of a table, for messages.
struct FieldPlace {
  std::string_view path;
  std::int64_t line = 0;
  std::size_t column = 0;      // from 1
  std::string_view name = {};  // of the column; empty: it has none

  std::string text() const;  // "reviews.csv:2: column 3 (price)"
};

// Without blanks at both ends.
std::string_view without_blanks(std::string_view text);

}  // namespace zero
