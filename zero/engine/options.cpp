#include "zero/engine/options.h"

#include <utility>

#include "zero/base/bytes.h"
#include "zero/optim/averaged_rule.h"

namespace zero {

TierMemory TierMemory::parse(std::string_view text, std::string_view key) {
  if (text == "auto") return {Kind::kAuto, 0};
  if (text == "min") return {Kind::kMin, 0};
  return {Kind::kBytes, parse_bytes(text, key)};
}

std::unique_ptr<UpdateRule> rule_of(const EngineOptions& options) {
  auto rule = make_update_rule(options.optimizer);
  return options.ema == 0 ? std::move(rule) : with_average(std::move(rule), options.ema);
}

}  // namespace zero
