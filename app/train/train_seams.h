// TrainSeams: what a test puts in place of a run's device. `zero train` leaves it empty.
//
//   train(job, world, output, {.open_device = [&](std::string_view) { return std::make_unique<SmallDevice>(memory); }});
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
  // Opens the device of this rank. Empty: open_device().
  std::function<std::unique_ptr<Device>(std::string_view name)> open_device{};
  // Bytes that libtorch has taken of its memory. Empty: held_by_torch().
  std::function<std::int64_t()> held_by_torch{};
  // Bytes that are free of it. Empty: the engine asks the device.
  std::function<std::int64_t()> free_device_bytes{};
  // Where what activations take is kept for the next run. Empty: LearnedActivations::default_path().
  std::filesystem::path learned{};
};

}  // namespace zero
