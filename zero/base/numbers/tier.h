// Tier: a kind of memory: device, host or disk. Without a GPU, device and host are both main memory with separate
// budgets.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace zero {

enum class Tier : std::uint8_t { kDevice, kHost, kDisk };
constexpr int kNumTiers = 3;
constexpr std::array<Tier, kNumTiers> kAllTiers{Tier::kDevice, Tier::kHost, Tier::kDisk};

constexpr std::string_view name_of(Tier tier) {
  constexpr std::array<std::string_view, kNumTiers> kNames{"device", "host", "disk"};
  return kNames[static_cast<std::size_t>(tier)];
}

}  // namespace zero
