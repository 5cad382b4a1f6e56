#include "app/train/machine/device_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "zero/base/text/bytes.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
    {{"bytes", 1}, {"KiB", 1024}, {"MiB", 1024.0 * 1024}, {"GiB", 1024.0 * 1024 * 1024}}};

// Parses "2.00 GiB" at the start of a text; 0 if the text does not begin so.
std::int64_t leading_bytes(std::string_view text) {
  const std::string number(text.substr(0, text.find(' ')));
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (number.empty() || end != number.c_str() + number.size() || !(value > 0)) return 0;
  const std::string_view unit = text.substr(std::min(number.size() + 1, text.size()));
  for (const auto& [name, bytes] : kUnits)
    if (unit.starts_with(name)) return static_cast<std::int64_t>(std::ceil(value * bytes));
  return unit.starts_with("B") ? static_cast<std::int64_t>(value) : 0;
}

std::string by_tag(const MemoryCount& held) {
  std::string text;
  for (const MemoryTag tag : kAllMemoryTags)
    if (held[tag] > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(tag), format_bytes(held[tag]));
  return text.empty() ? "nothing" : text;
}

}  // namespace

std::int64_t asked_bytes(std::string_view said) {
  for (const std::string_view before : {std::string_view("Tried to allocate "), std::string_view("memory = ")})
    if (const auto at = said.find(before); at != std::string_view::npos)
      if (const std::int64_t bytes = leading_bytes(said.substr(at + before.size())); bytes > 0) return bytes;
  return 0;
}

bool is_out_of_memory(std::string_view said) {
  constexpr std::array<std::string_view, 4> kWords{"CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
                                                   "CUSOLVER_STATUS_ALLOC_FAILED", "CUDA error: out of memory"};
  return std::ranges::any_of(kWords,
                             [said](std::string_view word) { return said.find(word) != std::string_view::npos; });
}

ConfigError device_memory_error(const DeviceMemoryUse& use, std::int64_t step, std::string_view said) {
  const std::int64_t asked = asked_bytes(said);
  // The bytes of zero.cpp on the device with which the allocation would have fitted.
  const std::int64_t fits = (use.most_held - asked) / kMiB * kMiB;
  const std::string budget =
      asked > 0 && fits > 0
          ? fmt::format("zero.device_memory {} B ({}) or less leaves room for this; or ", fits, format_bytes(fits))
          : std::string();
  const std::string again =
      use.next_run_leaves > 0
          ? fmt::format("start the run again, which then leaves {} to libtorch (zero.device_memory = auto); or ",
                        format_bytes(use.next_run_leaves))
          : std::string();
  return {"memory", asked > 0 ? format_bytes(asked) : "",
          fmt::format("{} is full in step {}: {}\n  zero.cpp has held {} there at most ({}), and libtorch holds {} for "
                      "activations and its operators",
                      use.device, step, said.substr(0, said.find('\n')), format_bytes(use.most_held), by_tag(use.held),
                      format_bytes(use.torch)),
          again + budget +
              "use a smaller train.batch with more train.accumulate, train.checkpoint_activations = true, more ranks, "
              "or a higher zero.stage; end other programs on the GPU (nvidia-smi shows them)"};
}

}  // namespace zero
