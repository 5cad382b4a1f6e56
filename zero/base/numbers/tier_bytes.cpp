#include "zero/base/numbers/tier_bytes.h"

#include <fmt/format.h>

#include "zero/base/text/bytes.h"

namespace zero {

std::string format_by_tier(const std::function<std::int64_t(Tier)>& bytes_of, std::string_view last) {
  std::string text;
  for (const Tier tier : kAllTiers)
    text += fmt::format("{}{} {}",
                        text.empty()        ? ""
                        : tier == kLastTier ? last
                                            : ", ",
                        format_bytes(bytes_of(tier)), facts_of(tier).phrase);
  return text;
}

}  // namespace zero
