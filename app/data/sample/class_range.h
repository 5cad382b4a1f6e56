// ClassRange: the range of classes that the training labels make; refuses labels out of range.
//
//   ClassRange range(/*classes=*/0);                          // 0: as many as the training labels make
//   range.learn(train_labels, "data.path", where);            // {0, 1, 1, 0}: classes 0 and 1
//   range.require(held_labels, "data.path", where);           // refuses a 2
//   range.note()                                              // a line about classes without samples, or ""
//
// If the number of classes is given, labels must be lower. If not, held-out labels must not be above the largest
// training label. At least half of the classes must have a training sample: labels {0, 1, 7} would make 8 classes, 5 of
// them without samples. (Else a typing error would widen the classifier by up to a million rows.) note() reports fewer
// empty classes. Training labels must not all be the same.
//
// `where(i)`: file and line, or sample, of label i. Local. Throws ConfigError(key, where).
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"

namespace zero {

class ClassRange {
 public:
  explicit ClassRange(std::int64_t classes = 0) : classes_(classes) {}

  template <typename Labels, typename Where>
  void learn(const Labels& labels, std::string_view key, Where where) {
    const std::set<std::int64_t> found(labels.begin(), labels.end());
    if (found.empty()) return;
    if (classes_ > 0) require_given(labels, key, where);
    largest_ = *found.rbegin();
    const auto with_samples = static_cast<std::int64_t>(found.size());
    if (with_samples == 1)
      throw ConfigError(key, where(0),
                        fmt::format("all labels are the same: {} with the label {}, from this one on",
                                    format_count(std::ssize(labels), "training sample"), largest_),
                        "give samples of two classes or more; mix rows that are sorted by class");
    if (classes_ > 0 || largest_ + 1 == with_samples) return;
    const std::string place = where(std::ranges::find(labels, largest_) - labels.begin());
    if (largest_ + 1 > 2 * with_samples)
      throw ConfigError(key, place,
                        fmt::format("the label {} would make {} classes, of which {} have samples; the next lower one "
                                    "is {}",
                                    largest_, largest_ + 1, with_samples, *++found.rbegin()),
                        "mend the label, number the classes from 0 without large gaps, or give data.classes");
    const std::int64_t empty = largest_ + 1 - with_samples;
    note_ = fmt::format(
        "note: {} of the {} classes {} no training sample: the largest label is {}, {}; data.classes says how many "
        "classes there are",
        empty, largest_ + 1, empty == 1 ? "has" : "have", largest_, place);
  }

  template <typename Labels, typename Where>
  void require(const Labels& labels, std::string_view key, Where where) const {
    if (classes_ > 0) return require_given(labels, key, where);
    const auto found = std::ranges::find_if(labels, [&](std::int64_t label) { return label > largest_; });
    if (found == labels.end()) return;
    throw ConfigError(key, where(found - labels.begin()),
                      fmt::format("the label {} is held out, and the training part has labels up to {}",
                                  static_cast<std::int64_t>(*found), largest_),
                      "mend the label, mix the rows, give training samples of its class, or give data.classes");
  }

  const std::string& note() const { return note_; }

 private:
  template <typename Labels, typename Where>
  void require_given(const Labels& labels, std::string_view key, Where where) const {
    const auto found = std::ranges::find_if(labels, [&](std::int64_t label) { return label >= classes_; });
    if (found == labels.end()) return;
    throw ConfigError(key, where(found - labels.begin()),
                      fmt::format("the label {} is none of data.classes = {}, which are 0 to {}",
                                  static_cast<std::int64_t>(*found), classes_, classes_ - 1),
                      "mend the label, or give a larger data.classes");
  }

  std::int64_t classes_;
  std::int64_t largest_ = -1;
  std::string note_;
};

}  // namespace zero
