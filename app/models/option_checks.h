// require_option(), require_positive() and others: checks of options that several models share. They throw ConfigError.
// Local.
#pragma once

#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {

inline void require_option(bool holds, std::string_view key, double value, std::string_view reason,
                           std::string_view remedy) {
  if (!holds) throw ConfigError(key, fmt::format("{}", value), reason, remedy);
}

inline void require_positive(std::string_view key, std::int64_t value) {
  require_option(value >= 1, key, static_cast<double>(value), "a model has at least one", "use 1 or more");
}

// Checks the number of classes of a classifier.
inline void require_classes(std::int64_t classes) {
  require_option(classes >= 2, "data.classes", static_cast<double>(classes), "nothing to choose from", "use 2 or more");
}

inline void require_dropout(double dropout) {
  require_option(dropout >= 0 && dropout < 1, "model.dropout", dropout, "not a fraction",
                 "use 0 or more and less than 1");
}

}  // namespace zero
