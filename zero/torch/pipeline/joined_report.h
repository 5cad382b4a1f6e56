// joined_report(): the report of one rank that has several engines, one for each of its sections.
//
//   EngineReport rank = joined_report({section_1.report(), section_3.report()});
//
// Bytes, counts and the seconds of transfers are sums over the engines. A sum of peaks is an upper bound, because the
// engines' peaks may be at different times. All other fields are those of the first engine. Local.
#pragma once

#include <vector>

#include "zero/engine/options/step_report.h"

namespace zero {

EngineReport joined_report(const std::vector<EngineReport>& parts);

}  // namespace zero
