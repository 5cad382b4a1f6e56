// TrainSeams: replacements of a run's device in tests. `zero train` leaves it empty.
//
//   const auto small = [&](std::string_view) { return std::make_unique<SmallDevice>(memory); };
//   train(job, world, output, {.open_device = small});
//
// Values only. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "zero/device/device.h"

namespace zero {

struct TrainSeams {
  // Opens the device of this rank. Empty: open_device() does.
  std::function<std::unique_ptr<Device>(std::string_view name)> open_device{};
  // Returns the bytes of the device's memory that libtorch has taken. Empty: held_by_torch() does.
  std::function<std::int64_t()> held_by_torch{};
  // Returns the free bytes of the device's memory. Empty: the engine asks the device.
  std::function<std::int64_t()> free_device_bytes{};
  // File that keeps the bytes of activations for the next run. Empty: LearnedActivations::default_path().
  std::filesystem::path learned{};
};

}  // namespace zero
