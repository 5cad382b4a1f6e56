#include "app/report/page/plan_text.h"

#include <algorithm>
#include <sstream>

#include "zero/base/numbers/tier.h"

namespace zero::page {
namespace {

// Returns "1.59 MiB"; empty if the next two words are no such size.
std::string next_bytes(std::istringstream& words) {
  std::string number, unit;
  if (!(words >> number >> unit) || number.find_first_not_of("0123456789.,") != std::string::npos) return "";
  return unit == "B" || unit.ends_with("iB") ? number + ' ' + unit : "";
}

}  // namespace

std::vector<PlannedTier> planned_tiers(std::string_view plan) {
  std::vector<PlannedTier> tiers;
  PlannedTier whole{.tier = "device"};
  std::istringstream lines{std::string(plan)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    PlannedTier tier;
    words >> tier.tier;
    const bool is_stage = tier.tier == "stage";
    if (is_stage) words >> tier.tier;  // reads the stage's number
    if (!is_stage && find_tier(tier.tier) == nullptr) continue;
    for (std::string& bytes : tier.bytes) bytes = next_bytes(words);
    if (std::ranges::any_of(tier.bytes, &std::string::empty)) continue;
    if (is_stage) {
      whole.bytes = tier.bytes;
    } else {
      tiers.push_back(tier);
    }
  }
  if (tiers.empty() && !whole.bytes[0].empty()) tiers.push_back(whole);
  return tiers;
}

}  // namespace zero::page
