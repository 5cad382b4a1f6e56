// DeviceName: a device in the user's words: "auto", "cpu", "cuda" or "cuda:1".
//
//   const std::optional<DeviceName> name = device_name("cuda:1");
//   name->is_gpu()                         // and name->gpu is 1
//   of_rank(*name, /*local_rank=*/3, /*num_gpus=*/2)          // "cuda:1": the ranks of a machine take turns
//
// Values only. Local.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace zero {

struct DeviceName {
  enum class Kind { kAuto, kCpu, kGpu };
  Kind kind = Kind::kCpu;
  std::optional<int> gpu;  // number of the GPU, if the name has one

  bool is_auto() const { return kind == Kind::kAuto; }
  bool is_gpu() const { return kind == Kind::kGpu; }
};

// Parses a name; nothing if there is no such device.
inline std::optional<DeviceName> device_name(std::string_view name) {
  if (name == "auto") return DeviceName{DeviceName::Kind::kAuto, std::nullopt};
  if (name == "cpu") return DeviceName{DeviceName::Kind::kCpu, std::nullopt};
  if (name == "cuda") return DeviceName{DeviceName::Kind::kGpu, std::nullopt};
  if (!name.starts_with("cuda:")) return std::nullopt;
  const std::string_view digits = name.substr(5);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0) return std::nullopt;
  return DeviceName{DeviceName::Kind::kGpu, number};
}

// Returns the GPU of a rank: the named one, otherwise the machine's GPUs in turn.
inline std::string of_rank(const DeviceName& name, int local_rank, int num_gpus) {
  return "cuda:" + std::to_string(name.gpu.value_or(local_rank % num_gpus));
}

}  // namespace zero
