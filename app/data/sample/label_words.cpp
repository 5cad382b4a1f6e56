#include "app/data/sample/label_words.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/terminal_text.h"

namespace zero {
namespace {

constexpr std::int64_t kLargestLabel = 1'000'000;
constexpr std::size_t kMostWords = 1000;
constexpr std::size_t kMostShown = 10;
constexpr std::size_t kColumnsOfAName = 40;

std::string shown_label(std::string_view label) {
  return terminal_text(label, kColumnsOfAName);
}

// Returns a number from 0 to kLargestLabel; empty: the label is another number, or no number.
std::optional<std::int64_t> class_number(std::string_view text) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kLargestLabel)
    return std::nullopt;
  return value;
}

}  // namespace

bool is_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error != std::errc::invalid_argument && end == text.data() + text.size();
}

LabelWords::LabelWords(LabelRule rule) : rule_(std::move(rule)) {
  for (const std::string& name : rule_.names) {
    names_have_numbers_ = names_have_numbers_ || is_number(name);
    if (!words_.emplace(name, std::ssize(words_)).second)
      throw ConfigError("data.labels", fmt::format("[{}]", fmt::join(rule_.names, ", ")),
                        fmt::format("'{}' is given twice", shown_label(name)), "name each class once");
  }
}

void LabelWords::require_kind(Kind kind, std::string_view label, std::string_view key, const FieldPlace& place) {
  const auto of_kind = [](Kind which) { return which == Kind::kNumbers ? "a number" : "a word"; };
  if (kind == Kind::kWords && rule_.only_numbers)
    throw ConfigError(
        key, place.text(), fmt::format("the label '{}' is a word, and data.path has numbers", shown_label(label)),
        "give both files the same labels; or set data.labels to the classes in the order of their numbers");
  if (kind_ == Kind::kUnknown) {
    kind_ = kind;
    first_ = label;
    first_place_ = place.text();
  }
  if (kind_ != kind)
    throw ConfigError(key, place.text(),
                      fmt::format("the label '{}' is {}, and '{}' is {} ({})", shown_label(label), of_kind(kind),
                                  shown_label(first_), of_kind(kind_), first_place_),
                      "mend the label: a file has words or numbers, not both");
}

std::int64_t LabelWords::class_named(std::string_view label, std::string_view key, const FieldPlace& place) {
  const auto found = words_.find(label);
  if (found != words_.end()) return found->second;
  if (!rule_.names.empty())
    throw ConfigError(key, place.text(),
                      fmt::format("the label '{}' is none of {}: {}", shown_label(label),
                                  rule_.names_are_given ? "data.labels" : "those of data.path",
                                  shown_label(fmt::format("{}", fmt::join(rule_.names, ", ")))),
                      rule_.names_are_given ? "mend the label, or name its class in data.labels"
                                            : "mend the label, or name all classes in data.labels");
  if (words_.size() == kMostWords)
    throw ConfigError(key, place.text(),
                      fmt::format("the labels are more than {} different words", format_count(kMostWords)),
                      "name the column of the labels with data.label_column, or all classes with data.labels");
  return words_.emplace(label, std::ssize(words_)).first->second;
}

void LabelWords::add(std::string_view label, std::string_view key, const FieldPlace& place) {
  if (label.empty()) throw ConfigError(key, place.text(), "'' is not a class", "give each row a label");
  const bool is_name = !rule_.names.empty() && words_.contains(label);
  if (is_name || !is_number(label)) {
    require_kind(Kind::kWords, label, key, place);
    labels_.push_back(class_named(label, key, place));
    return;
  }
  const std::optional<std::int64_t> number = class_number(label);
  if (!number)
    throw ConfigError(key, place.text(), fmt::format("'{}' is not a class", shown_label(label)),
                      "a label is a word, or a whole number from 0 to 1,000,000");
  if (!rule_.names.empty() && (!rule_.names_are_given || names_have_numbers_ || *number >= std::ssize(rule_.names)))
    class_named(label, key, place);  // throws
  require_kind(Kind::kNumbers, label, key, place);
  labels_.push_back(*number);
}

NamedLabels LabelWords::finish() && {
  if (!rule_.names.empty()) return {std::move(labels_), std::move(rule_.names)};
  std::vector<std::int64_t> sorted(words_.size());
  std::vector<std::string> names;
  for (const auto& [word, came] : words_) {  // the map is sorted by bytes
    sorted[static_cast<std::size_t>(came)] = std::ssize(names);
    names.push_back(word);
  }
  if (!names.empty())
    for (std::int64_t& label : labels_) label = sorted[static_cast<std::size_t>(label)];
  return {std::move(labels_), std::move(names)};
}

std::string class_line(std::string_view path, const NamedLabels& classes) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(classes.names.size(), kMostShown); ++i) {
    const auto rows = std::ranges::count(classes.labels, static_cast<std::int64_t>(i));
    parts.push_back(fmt::format("{} = {} ({})", i, shown_label(classes.names[i]),
                                i == 0 ? format_count(rows, "row") : format_count(rows)));
  }
  const auto more = std::ssize(classes.names) - std::ssize(parts);
  return fmt::format("classes of {}: {}{}", path, fmt::join(parts, ", "),
                     more > 0 ? fmt::format(", and {} more", format_count(more)) : "");
}

LabelRule rule_of_training(const LabelRule& rule, const std::vector<std::string>& names) {
  if (!rule.names.empty()) return rule;
  return {.names = names, .names_are_given = false, .only_numbers = names.empty()};
}

}  // namespace zero
