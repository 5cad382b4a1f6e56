#include "zero/plan/secondary.h"

#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/base/error.h"

namespace zero {

void require_secondary_group(int shard, int group, std::string_view key) {
  if (group == 0 || (group > 0 && group < shard && shard % group == 0)) return;
  throw ConfigError(key, fmt::format("{}", group),
                    fmt::format("{} hold the model once, and cannot be divided into two or more groups of this size",
                                format_count(shard, "rank")),
                    "use a number from 2 that divides them and is smaller, or leave it out");
}

}  // namespace zero
