#include "zero/base/numbers/memory_budget.h"

#include "zero/base/text/bytes.h"

namespace zero {

MemoryBudget MemoryBudget::parse(std::string_view text, std::string_view key) {
  if (text == "auto") return {.kind = Kind::kAuto};
  if (text == "min") return {.kind = Kind::kMin};
  return {.kind = Kind::kBytes, .bytes = parse_bytes(text, key)};
}

}  // namespace zero
