// joined_report(): the report of one rank that has several engines, one for each of its sections.
//
//   EngineReport rank = joined_report({section_1.report(), section_3.report()});
//
// Bytes are sums. So peaks are upper bounds, because the engines' peaks may be at different times. Everything that has
// no sum is the first engine's. Local.
#pragma once

#include <vector>

#include "zero/engine/options/step_report.h"

namespace zero {

EngineReport joined_report(const std::vector<EngineReport>& parts);

}  // namespace zero
