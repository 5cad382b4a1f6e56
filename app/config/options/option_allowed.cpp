// allowed(): declared in option.h.
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/config/options/option.h"

namespace zero {
namespace {

std::string limits(const Range& range, std::string_view kind) {
  const std::string low = fmt::format("{}{}", range.above_lowest ? "above " : "", range.lowest);
  if (std::isinf(range.lowest) && std::isinf(range.highest)) return std::string(kind);
  if (std::isinf(range.lowest)) return fmt::format("{}, {} or less", kind, range.highest);
  if (std::isinf(range.highest)) return fmt::format("{}, {}{}", kind, low, range.above_lowest ? "" : " or more");
  return fmt::format("{} from {} to {}{}", kind, low, static_cast<std::int64_t>(range.highest),
                     range.below_highest ? " (exclusive)" : "");
}

struct Describe {
  const Option& option;
  std::string operator()(OptionAccess<bool>) const { return "true or false"; }
  std::string operator()(OptionAccess<std::int64_t>) const {
    // There are few enough values to list them.
    if (option.range.highest - option.range.lowest <= 4) {
      std::string out;
      for (double n = option.range.lowest; n <= option.range.highest; ++n)
        out += fmt::format("{}{}", out.empty() ? "" : ", ", n);
      return out;
    }
    return limits(option.range, "an integer");
  }
  std::string operator()(OptionAccess<double>) const { return limits(option.range, "a number"); }
  std::string operator()(OptionAccess<std::string>) const { return "a string"; }
  std::string operator()(OptionAccess<std::filesystem::path>) const { return "a string"; }
  template <typename T>
  std::string operator()(const Converted<T>&) const {
    return (*this)(OptionAccess<T>{});
  }
  std::string operator()(const WordAccess& access) const { return fmt::format("{}", fmt::join(access.words, ", ")); }
  std::string operator()(OptionAccess<std::vector<std::int64_t>>) const {
    return "two or more integers, such as [784, 256, 10]";
  }
  std::string operator()(OptionAccess<std::array<double, 2>>) const {
    return limits(option.range, "two numbers, such as [0.9, 0.95], each");
  }
  std::string operator()(OptionAccess<std::vector<double>>) const {
    return limits(option.range, "a number, or several, such as [0.485, 0.456, 0.406]");
  }
  std::string operator()(OptionAccess<ImageSize>) const {
    return limits(option.range, "an integer, or height and width, such as [96, 128], each");
  }
  std::string operator()(OptionAccess<std::chrono::milliseconds>) const {
    return "a duration from 1ms to 168h, such as \"500ms\" or \"60s\"";
  }
  std::string operator()(OptionAccess<Interval>) const {
    return "a number of steps, 0 for never, or a duration such as \"10min\"";
  }
  std::string operator()(OptionAccess<Validation>) const {
    return limits(option.range, "a path, several, or a number");
  }
  std::string operator()(OptionAccess<DataFiles>) const {
    return "a path, a pattern such as \"train_*.bin\", or several, such as [\"a.bin\", \"b.bin\"]";
  }
  std::string operator()(OptionAccess<LossScaleChoice>) const {
    return "\"dynamic\", or a number above 0, such as 1024";
  }
  std::string operator()(OptionAccess<ShareChoice>) const {
    return "\"equal\", \"auto\", or the samples of each rank, such as [6, 2]";
  }
  std::string operator()(OptionAccess<WeightsChoice>) const {
    return "\"auto\", or a weight for each rank, such as [2, 1]";
  }
  std::string operator()(OptionAccess<CutChoice>) const {
    return "\"work\", \"measured\", or units: [\"h.2\", \"h.4\"]";
  }
  std::string operator()(OptionAccess<GroupChoice>) const {
    return fmt::format("\"auto\", or {}", limits(option.range, "an integer"));
  }
  std::string operator()(OptionAccess<std::optional<bool>>) const { return "\"auto\", true or false"; }
  std::string operator()(OptionAccess<MemoryBudget>) const {
    return takes_min(option) ? "\"auto\", \"min\", or a size such as \"64MiB\""
                             : "\"auto\", or a size such as \"64GiB\"";
  }
  std::string operator()(OptionAccess<std::vector<std::string>>) const {
    return "folders, such as [\"/nvme0\", \"/nvme1\"]";
  }
  std::string operator()(OptionAccess<Names>) const { return "names, such as [\"negative\", \"positive\"]"; }
  std::string operator()(OptionAccess<TierFractions>) const {
    return "fractions that sum to 1 or less, such as {host = 0.6, disk = 0.4}; the rest is on the device";
  }
  std::string operator()(OptionAccess<std::vector<GroupKeys>>) const {
    return "tables such as {parameters = \"*.bias\", lr_scale = 2.0, weight_decay = 0.0}";
  }
};

}  // namespace

bool takes_min(const Option& option) {
  const TierFacts* const tier = find_tier_of_budget(option.name);
  return tier != nullptr && tier->is_memory;
}

std::string allowed(const Option& option) {
  return std::visit(Describe{option}, option.field);
}

}  // namespace zero
