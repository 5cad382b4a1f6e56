// LabelWords: collects the labels of a file and makes classes: numbers from 0, or words such as "positive".
//
//   LabelWords labels({});
//   labels.add("positive", "data.path", {"reviews.tsv", 2, 2, "label"});
//   labels.add("negative", "data.path", {"reviews.tsv", 3, 2, "label"});
//   labels.finish().names          // {"negative", "positive"}: 0 and 1, in the order of their bytes
//
// Words are numbered in the order of their bytes. data.labels gives another order; then the numbers of its names are
// also allowed as labels. A file has words or numbers, never both, because a typing error would become a class. Numbers
// are whole, from 0 to 1,000,000. There are at most 1,000 different words, unless data.labels names them.
//
// Local. Throws ConfigError(key, place).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/sample/csv_reader.h"

namespace zero {

// The labels that are allowed.
struct LabelRule {
  std::vector<std::string> names{};  // names of all classes, in order; empty: they are found in the labels
  bool names_are_given = true;       // are `names` from data.labels, and not from the labels of data.path?
  bool only_numbers = false;         // are the labels of data.path numbers?
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
  std::string first_, first_place_;                         // the first label, and its place
  std::map<std::string, std::int64_t, std::less<>> words_;  // numbered by first use, or as the given names
  std::vector<std::int64_t> labels_;
};

// Is the whole label a number, such as "-1.5" or "nan"?
bool is_number(std::string_view text);

// Returns a line such as "classes of reviews.tsv: 0 = negative (500 rows), 1 = positive (499)", with at most ten
// classes.
std::string class_line(std::string_view path, const NamedLabels& classes);

// Returns the rule for held-out data. `rule` and `names` are the rule and the class names of the training data.
LabelRule rule_of_training(const LabelRule& rule, const std::vector<std::string>& names);

}  // namespace zero
