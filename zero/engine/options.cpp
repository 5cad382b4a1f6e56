#include "zero/engine/options.h"

#include "zero/base/bytes.h"

namespace zero {

DeviceMemory DeviceMemory::parse(std::string_view text) {
  if (text == "auto") return {Kind::kAuto, 0};
  if (text == "min") return {Kind::kMin, 0};
  return {Kind::kBytes, parse_bytes(text, "zero.device_memory")};
}

}  // namespace zero
