// LabelWords: the classes that the labels of a file name: numbers from 0, or words such as "positive".
//
//   LabelWords labels({});
//   labels.add("positive", "data.path", {"reviews.tsv", 2, 2, "label"});
//   labels.add("negative", "data.path", {"reviews.tsv", 3, 2, "label"});
//   labels.finish().names          // {"negative", "positive"}: 0 and 1, in the order of their bytes
//
// Words are numbered in the order of their bytes; data.labels gives another order, and then also numbers of these names
// are labels. A file has words or numbers, never both: a slip would be a class of its own. A label that reads as a
// number is whole and from 0 to 1,000,000. At most 1,000 different words, unless data.labels names them.
//
// Throws ConfigError(key, place). Local.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/sample/csv_reader.h"

namespace zero {

// What a label may be.
struct LabelRule {
  std::vector<std::string> names{};  // of all classes, in their order; empty: the labels say them
  bool names_are_given = true;       // by data.labels; else by the labels of data.path
  bool only_numbers = false;         // those of data.path are numbers
};

// The label of each row, and the names of the classes; empty: classes are numbers.
struct NamedLabels {
  std::vector<std::int64_t> labels;
  std::vector<std::string> names;
};

class LabelWords {
 public:
  explicit LabelWords(LabelRule rule);

  void add(std::string_view label, std::string_view key, const FieldPlace& place);
  NamedLabels finish() &&;

 private:
  enum class Kind { kUnknown, kNumbers, kWords };

  void require_kind(Kind kind, std::string_view label, std::string_view key, const FieldPlace& place);
  std::int64_t class_named(std::string_view label, std::string_view key, const FieldPlace& place);

  LabelRule rule_;
  bool names_have_numbers_ = false;
  Kind kind_ = Kind::kUnknown;
  std::string first_, first_place_;                         // of the labels
  std::map<std::string, std::int64_t, std::less<>> words_;  // in the order in which they came, unless names are given
  std::vector<std::int64_t> labels_;
};

// Do all characters of a label make one number, such as "-1.5" or "nan"?
bool is_number(std::string_view text);

// "classes of reviews.tsv: 0 = negative (500 rows), 1 = positive (499)"; of many classes the first ten.
std::string class_line(std::string_view path, const NamedLabels& classes);

// The rule for held-out data, from what the training data was read with and has.
LabelRule rule_of_training(const LabelRule& rule, const std::vector<std::string>& names);

}  // namespace zero
