#include "zero/engine/options.h"

#include "zero/base/bytes.h"

namespace zero {

TierMemory TierMemory::parse(std::string_view text, std::string_view key) {
  if (text == "auto") return {Kind::kAuto, 0};
  if (text == "min") return {Kind::kMin, 0};
  return {Kind::kBytes, parse_bytes(text, key)};
}

}  // namespace zero
