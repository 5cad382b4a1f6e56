// planned_tiers(): reads the bytes in plan.txt, which a run writes for people before it begins
// (app/report/plan/plan_table.h).
//
//   for (const PlannedTier& tier : planned_tiers(text)) ...      // "device": 1.59 MiB, 1.59 MiB, 0 B, 3.18 MiB
//
// Returns one tier if everything is on the device, and none for text of another form. Values only; Local.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace zero::page {

struct PlannedTier {
  std::string tier;                  // "device", "host", "disk"
  std::array<std::string, 5> bytes;  // parameter, gradient, master, moment, total: "1.59 MiB"
};

std::vector<PlannedTier> planned_tiers(std::string_view plan);

}  // namespace zero::page
