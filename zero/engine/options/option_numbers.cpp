#include "zero/engine/options/option_numbers.h"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"

namespace zero {
namespace {

struct NumberRow {
  std::string_view key;
  double (*value)(const AttachOptions& options);
  NumberRange range;
  std::string_view remedy;
};

double bytes_of(const MemoryBudget& budget, double of_others) {
  return budget.kind == MemoryBudget::Kind::kBytes ? static_cast<double>(budget.bytes) : of_others;
}

using Options = AttachOptions;
constexpr std::array kNumbers{
    NumberRow{"train.clip", [](const Options& o) { return o.clip; }, kAtLeastZero, "use 0 for no clipping"},
    NumberRow{"train.ema", [](const Options& o) { return o.ema; }, kFractionOfOne,
              "use 0 for none, or for example 0.999"},
    NumberRow{"train.accumulate", [](const Options& o) { return static_cast<double>(o.accumulate); }, kAtLeastOne,
              "a step needs a micro-batch: set it to 1 or more"},
    NumberRow{"train.leaves", [](const Options& o) { return static_cast<double>(o.leaves); }, kAtLeastZero,
              "use 0 for none, or for example 8"},
    NumberRow{"run.threads", [](const Options& o) { return static_cast<double>(o.threads); }, kAtLeastOne,
              "a rank needs a thread: set it to 1 or more"},
    NumberRow{"exact_steps", [](const Options& o) { return static_cast<double>(o.exact_steps); }, kAtLeastZero,
              "use 0 to delay all updates, or for example 40"},
    NumberRow{"max_skipped_steps", [](const Options& o) { return static_cast<double>(o.max_skipped_steps); },
              kAtLeastOne, "use for example 10"},
    NumberRow{"zero.device_memory", [](const Options& o) { return bytes_of(o.device_memory, 0); }, kAtLeastZero,
              "use a size such as \"4GiB\", \"min\" or \"auto\""},
    NumberRow{"zero.host_memory", [](const Options& o) { return bytes_of(o.offload.host_memory, 0); }, kAtLeastZero,
              "use a size such as \"4GiB\", or \"auto\""},
    NumberRow{"zero.disk_memory", [](const Options& o) { return static_cast<double>(o.offload.disk_memory); },
              kAtLeastZero, "use bytes, or 0 for no limit"},
    NumberRow{"zero.link_bandwidth", [](const Options& o) { return o.offload.link_bytes_per_second; }, kAtLeastZero,
              "use bytes a second, or 0 for no link"},
    NumberRow{"offload.disk_timeout",
              [](const Options& o) { return static_cast<double>(o.offload.disk_timeout.count()); }, kAboveZero,
              "use for example 60 s"},
    NumberRow{"zero.memory_reserve",
              [](const Options& o) { return static_cast<double>(o.offload.monitor.reserve_bytes); }, kAtLeastZero,
              "use bytes, or 0 for the default"},
    NumberRow{"offload.monitor.period",
              [](const Options& o) { return static_cast<double>(o.offload.monitor.period.count()); }, kAtLeastZero,
              "use for example 20 ms, or 0 for no thread"}};

void require_group(const ParameterGroup& group, std::size_t number) {
  const std::string key =
      fmt::format("groups[{}]{}", number, group.name.empty() ? "" : fmt::format(" ({})", group.name));
  require_number(fmt::format("{}.lr_scale", key), group.lr_scale, kAtLeastZero,
                 "use 1 for the optimizer's learning rate, or 0 to keep its parameters as they are");
  if (group.weight_decay)
    require_number(fmt::format("{}.weight_decay", key), *group.weight_decay, kAtLeastZero,
                   "use 0 for no decay, or leave it out for the optimizer's");
}

}  // namespace

void require_numbers(const AttachOptions& options) {
  for (const NumberRow& row : kNumbers) require_number(row.key, row.value(options), row.range, row.remedy);
  for (std::size_t number = 0; number < options.groups.size(); ++number) require_group(options.groups[number], number);
}

namespace {

void require_by_group(std::string_view key, const std::vector<double>& numbers, std::size_t num_groups) {
  if (numbers.empty()) return;
  if (numbers.size() != num_groups)
    throw ConfigError(fmt::format("step(rates.{})", key), fmt::format("{} numbers", numbers.size()),
                      fmt::format("the options have {} groups", num_groups),
                      "give a number for each of options.groups, in their order; or leave it empty");
  for (std::size_t group = 0; group < num_groups; ++group)
    require_number(fmt::format("step(rates.{}[{}])", key, group), numbers[group], kAtLeastZero,
                   "check the schedule that sets it");
}

}  // namespace

void require_rates(const StepRates& rates, std::size_t num_groups) {
  require_number("step(lr)", rates.lr, kAtLeastZero, "check the schedule that sets it");
  require_by_group("by_group", rates.by_group, num_groups);
  require_by_group("decay_by_group", rates.decay_by_group, num_groups);
}

namespace {

// A limit is only compared. So a number beyond fp32 is one too, and infinity, which means no limit.
void require_limit(std::string_view key, double limit, const NumberRange& range) {
  if (limit > std::numeric_limits<float>::max()) return;  // false for a NaN
  require_number(key, limit, range, "use infinity for no limit");
}

}  // namespace

void require_limits(double max_loss, double max_grad_norm) {
  require_limit("step(limits.max_loss)", max_loss, NumberRange{});
  require_limit("step(limits.max_grad_norm)", max_grad_norm, kAtLeastZero);
}

}  // namespace zero
