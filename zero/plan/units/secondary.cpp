#include "zero/plan/units/secondary.h"

#include <string>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"

namespace zero {

void require_secondary_group(int shard, int group, std::string_view key) {
  if (group == 0 || (group > 0 && group < shard && shard % group == 0)) return;
  std::string sizes;
  for (int size = 2; size < shard; ++size)
    if (shard % size == 0) sizes += fmt::format("{}{}", sizes.empty() ? "" : " ", size);
  throw ConfigError(
      key, fmt::format("{}", group),
      fmt::format("{} hold one copy of the model, and they cannot be divided into two or more groups of this size",
                  format_count(shard, "rank")),
      sizes.empty() ? fmt::format("leave it out: no number from 2 divides {} into groups", shard)
                    : fmt::format("use {}; or leave it out", sizes));
}

}  // namespace zero
