// format_by_tier(): lists the bytes of all tiers in a sentence.
//
//   format_by_tier([&](Tier tier) { return held[tier]; })  // "1 MiB on the device, 0 B on the host, 2 MiB on disk"
//
// Local.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "zero/base/numbers/tier.h"

namespace zero {

// `last`: the text before the last tier.
std::string format_by_tier(const std::function<std::int64_t(Tier)>& bytes_of, std::string_view last = ", ");

}  // namespace zero
