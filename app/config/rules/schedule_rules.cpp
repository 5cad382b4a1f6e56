#include "app/config/rules/schedule_rules.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"

#include "app/config/options/option.h"
#include "app/config/rules/read_keys.h"

namespace zero {
namespace {

[[noreturn]] void refuse_key_of_run(const LoadedConfig& loaded, std::string_view name, std::string_view reason,
                                    std::string_view remedy) {
  const auto origin = loaded.origins.find(name);
  throw ConfigError(located(origin == loaded.origins.end() ? "" : origin->second, name),
                    shown(to_toml(get_option(loaded.config, *find_option(name)))), reason, remedy);
}

// Limits a value to `most` if the key has a weaker source than the number of steps, and adds a note about it.
void shorten(LoadedConfig& loaded, std::string_view name, std::int64_t& value, std::int64_t most) {
  const int rank = rank_of(loaded, name);
  if (value <= most || (rank >= 0 && rank >= rank_of(loaded, "train.steps"))) return;
  const std::int64_t was = value;
  value = std::max<std::int64_t>(0, most);
  const std::string note = fmt::format("{} is {} instead of {} ({}), because the run has {}", name, value, was,
                                       rank < 0 ? "its default" : loaded.origins.find(name)->second,
                                       format_count(loaded.config.train.steps, "step"));
  if (std::ranges::find(loaded.notes, note) == loaded.notes.end()) loaded.notes.push_back(note);
}

void require_evaluations(const LoadedConfig& loaded, std::string_view name, std::string_view off) {
  const auto& [train, data] = std::tie(loaded.config.train, loaded.config.data);
  if (train.eval_every == 0)
    refuse_key_of_run(loaded, name,
                      "it compares evaluations, and with train.eval_every = 0 there is no evaluation before the end",
                      fmt::format("set train.eval_every, or {} {}", name, off));
  const double* const fraction = std::get_if<double>(&data.validation);
  if (fraction != nullptr && *fraction == 0)
    refuse_key_of_run(loaded, name, "it compares evaluations, and data.validation = 0 leaves no data for evaluations",
                      fmt::format("set data.validation, or {} {}", name, off));
}

}  // namespace

// Steps and epochs both set the length of a run, so only the key with the stronger source counts.
void settle_length(LoadedConfig& loaded) {
  auto& train = loaded.config.train;
  if (train.epochs == 0) return;
  const int steps = rank_of(loaded, "train.steps"), epochs = rank_of(loaded, "train.epochs");
  if (steps > epochs) {
    train.epochs = 0;
    loaded.origins.erase("train.epochs");
  } else if (steps < epochs && steps >= 0) {
    train.steps = TrainKeys{}.steps;
    loaded.origins.erase("train.steps");
  }
}

void settle_schedule(LoadedConfig& loaded) {
  TrainKeys& train = loaded.config.train;
  LrSchedule& schedule = loaded.config.schedule;
  if (train.epochs > 0) return;  // the steps follow from the data
  shorten(loaded, "schedule.warmup", schedule.warmup, train.steps);
  shorten(loaded, "schedule.decay", schedule.decay, train.steps - schedule.warmup);
}

void check_length(const LoadedConfig& loaded) {
  if (loaded.config.train.epochs > 0 && loaded.origins.contains("train.steps"))
    refuse_key_of_run(loaded, "train.epochs", fmt::format("train.steps = {} is also given", loaded.config.train.steps),
                      "set only one of the two: steps follow from epochs");
}

void check_schedule(const LoadedConfig& loaded) {
  const auto& [train, schedule, optimizer] =
      std::tie(loaded.config.train, loaded.config.schedule, loaded.config.optimizer);
  const std::int64_t after = train.steps - schedule.warmup;
  if (train.epochs == 0 && after < 0)
    refuse_key_of_run(
        loaded, "schedule.warmup",
        fmt::format("more than train.steps = {}: the learning rate would never reach optimizer.lr", train.steps),
        fmt::format("use {} or less, for example --schedule.warmup {}", train.steps,
                    std::max<std::int64_t>(1, train.steps / 10)));
  if (train.epochs == 0 && schedule.decay > after) {
    // The warm-up or the decay may be too long.
    const std::string shorter = schedule.decay < train.steps
                                    ? fmt::format("schedule.warmup {} or less", train.steps - schedule.decay)
                                    : fmt::format("a schedule.decay below train.steps = {}", train.steps);
    if (after == 0)
      refuse_key_of_run(
          loaded, "schedule.decay",
          fmt::format("the warm-up takes all {}, and leaves no step for the decay", format_count(train.steps, "step")),
          fmt::format("use {}", shorter));
    refuse_key_of_run(loaded, "schedule.decay",
                      fmt::format("more than the {} after the warm-up", format_count(after, "step")),
                      fmt::format("use {} or less, 0 for a fifth of them, or {}", after, shorter));
  }
  if (schedule.kind != LrKind::kConstant && schedule.min_lr > optimizer.lr)
    refuse_key_of_run(
        loaded, "schedule.min_lr", fmt::format("more than optimizer.lr = {}", optimizer.lr),
        optimizer.lr > 0
            ? fmt::format("use {} or less: the schedule lowers the learning rate", optimizer.lr)
            : std::string("set an optimizer.lr above it: the schedule lowers the learning rate from there"));
}

void check_evaluations(const LoadedConfig& loaded) {
  const auto& [train, checkpoint] = std::tie(loaded.config.train, loaded.config.checkpoint);
  if (checkpoint.keep_best) {
    require_evaluations(loaded, "checkpoint.keep_best", "none");
    if (!checkpoint.on())
      refuse_key_of_run(loaded, "checkpoint.keep_best", "checkpoint.every = 0 saves no checkpoints",
                        "set checkpoint.every, or checkpoint.keep_best none");
  }
  if (train.patience == 0) return;
  require_evaluations(loaded, "train.patience", "0");
  if (loaded.config.engine.sync.servers > 0)
    refuse_key_of_run(loaded, "train.patience", "workers compute ahead of the evaluations of servers",
                      "leave it out, or leave out sync.servers");
}

}  // namespace zero
