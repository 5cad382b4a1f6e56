#include "zero/plan/schedule/trace.h"

#include <fmt/format.h>

namespace zero {

std::uint64_t hash_of(const Trace& trace) {
  // FNV-1a over (kind, unit, micro-batch, pinned...), field by field, because padding bytes must not enter the hash.
  std::uint64_t hash = 14695981039346656037ull;
  const auto mix = [&hash](std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      hash ^= (value >> (8 * byte)) & 0xffu;
      hash *= 1099511628211ull;
    }
  };
  for (const Event& event : trace.events) {
    mix(static_cast<std::uint64_t>(event.kind));
    mix(static_cast<std::uint64_t>(static_cast<std::int64_t>(event.unit)));
    mix(static_cast<std::uint64_t>(event.micro_batch));
    mix(event.pinned.size());
    for (int unit : event.pinned) mix(static_cast<std::uint64_t>(unit));
  }
  return hash;
}

std::string describe(const Event& event, const std::vector<Unit>& units) {
  const auto name = [&] { return units.at(static_cast<std::size_t>(event.unit)).name; };
  switch (event.kind) {
    case EventKind::kAccess:
      return fmt::format("access {}", name());
    case EventKind::kBackward:
      return "backward";
    case EventKind::kGradient:
      return fmt::format("gradient {}", name());
    case EventKind::kEndBackward:
      return "end of backward";
    case EventKind::kStep:
      return "step";
  }
  return "";
}

}  // namespace zero
