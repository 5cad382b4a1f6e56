#include "app/config/rules/evaluation_rules.h"

#include <string_view>
#include <tuple>
#include <variant>

#include <fmt/format.h>

#include "zero/base/error/error.h"

#include "app/config/options/option.h"

namespace zero {
namespace {

[[noreturn]] void refuse_comparing(const LoadedConfig& loaded, std::string_view name, std::string_view reason,
                                   std::string_view remedy) {
  const auto origin = loaded.origins.find(name);
  throw ConfigError(located(origin == loaded.origins.end() ? "" : origin->second, name),
                    shown(to_toml(get_option(loaded.config, *find_option(name)))), reason, remedy);
}

void require_evaluations(const LoadedConfig& loaded, std::string_view name, std::string_view off) {
  const auto& [train, data] = std::tie(loaded.config.train, loaded.config.data);
  if (train.eval_every == 0)
    refuse_comparing(loaded, name,
                     "it compares evaluations, and with train.eval_every = 0 there is no evaluation before the end",
                     fmt::format("set train.eval_every, or {} {}", name, off));
  const double* const fraction = std::get_if<double>(&data.validation);
  if (fraction != nullptr && *fraction == 0)
    refuse_comparing(loaded, name, "it compares evaluations, and data.validation = 0 leaves no data for evaluations",
                     fmt::format("set data.validation, or {} {}", name, off));
}

}  // namespace

void check_evaluations(const LoadedConfig& loaded) {
  const auto& [train, checkpoint] = std::tie(loaded.config.train, loaded.config.checkpoint);
  if (checkpoint.keep_best) {
    require_evaluations(loaded, "checkpoint.keep_best", "none");
    if (!checkpoint.on())
      refuse_comparing(loaded, "checkpoint.keep_best", "checkpoint.every = 0 saves no checkpoints",
                       "set checkpoint.every, or checkpoint.keep_best none");
  }
  if (train.patience == 0) return;
  require_evaluations(loaded, "train.patience", "0");
  if (loaded.config.engine.sync.servers > 0)
    refuse_comparing(loaded, "train.patience", "workers compute ahead of the evaluations of servers",
                     "leave it out, or leave out sync.servers");
}

}  // namespace zero
