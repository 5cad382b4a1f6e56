// ClassRange: the classes that the labels of the training data make, and the refusal of a label out of their range.
//
//   ClassRange range;
//   range.learn(train_labels, "data.path", where);            // {0, 1, 1, 0}: classes 0 and 1
//   range.require(held_labels, "data.path", where);           // refuses a 2
//
// A label is out of range where it is held out and above all labels of the training part; and where it leaves more than half
// of the classes below it without a training sample: labels {0, 1, 7} would make 8 classes of which 5 have nothing to learn
// from. (A slip in one line would else widen the classifier by up to a million rows.) `where(i)`: file and line, or sample, of
// label i. Throws ConfigError(key, where). Local.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/error.h"

namespace zero {

class ClassRange {
 public:
  template <typename Labels, typename Where>
  void learn(const Labels& labels, std::string_view key, Where where) {
    const std::set<std::int64_t> found(labels.begin(), labels.end());
    if (found.empty()) return;
    largest_ = *found.rbegin();
    const auto with_samples = static_cast<std::int64_t>(found.size());
    if (largest_ + 1 <= 2 * with_samples) return;
    const auto at = std::ranges::find(labels, largest_) - labels.begin();
    const std::string others = with_samples == 1 ? "" : fmt::format("; the next lower one is {}", *++found.rbegin());
    throw ConfigError(key, where(at),
                      fmt::format("the label {} would make {} classes, of which {} have samples{}", largest_,
                                  largest_ + 1, with_samples, others),
                      "mend the label, or number the classes from 0 without large gaps");
  }

  template <typename Labels, typename Where>
  void require(const Labels& labels, std::string_view key, Where where) const {
    const auto found = std::ranges::find_if(labels, [&](std::int64_t label) { return label > largest_; });
    if (found == labels.end()) return;
    throw ConfigError(key, where(found - labels.begin()),
                      fmt::format("the label {} is held out, and the training part has labels up to {}",
                                  static_cast<std::int64_t>(*found), largest_),
                      "mend the label, mix the rows, or give training samples of its class");
  }

 private:
  std::int64_t largest_ = -1;
};

}  // namespace zero
