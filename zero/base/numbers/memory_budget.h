// MemoryBudget: the most bytes that zero.cpp may hold on a tier.
//
//   MemoryBudget::parse("64MiB") == MemoryBudget{MemoryBudget::Kind::kBytes, 64 << 20}
//
//   auto: four fifths of this machine's free memory, divided among its ranks
//   min: the least that works: one gathered unit at a time, nothing ahead; one tile of a state on disk at a time
//
// Values only. Local.
#pragma once

#include <cstdint>
#include <string_view>

namespace zero {

struct MemoryBudget {
  enum class Kind : std::uint8_t { kAuto, kMin, kBytes };
  Kind kind = Kind::kAuto;
  std::int64_t bytes = 0;  // size, only for kBytes
  // Parses "auto", "min", or a size such as "64MiB". Throws ConfigError under `key`.
  static MemoryBudget parse(std::string_view text, std::string_view key = "zero.device_memory");
  bool operator==(const MemoryBudget&) const = default;
};

}  // namespace zero
