#include "app/config/rules/read_keys.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/text/name_lists.h"
#include "zero/optim/rule_registry.h"

#include "app/config/options/option.h"
#include "app/config/rules/model_rules.h"
#include "app/train/tasks/model_table.h"

namespace zero {
namespace {

constexpr int kOfFile = 0;

// Chooser: a key whose value decides which other keys are read.
struct Chooser {
  std::string_view name;
  bool (*reads)(const Config& config, std::string_view key);
  std::string (*values_that_read)(std::string_view key);  // "sgd or muon"
  bool names_keys = true;                                 // does a refusal say which keys of the section are read?
};

bool schedule_reads(LrKind kind, std::string_view key) {
  if (key == "schedule.power") return kind == LrKind::kPolynomial;
  if (key == "schedule.decay") return kind == LrKind::kWsd;
  if (key == "schedule.min_lr") return kind != LrKind::kConstant;
  return true;
}

std::string schedules_that_read(std::string_view key) {
  std::vector<std::string_view> names;
  for (const auto& [name, kind] : kLrKinds)
    if (schedule_reads(kind, key)) names.push_back(name);
  return one_of(names);
}

// A csv has texts or numbers.
std::string whose_texts(std::string_view key) {
  if (key == "data.columns") return " without data.text_column";
  const auto kinds = kinds_that_take(key);
  return std::ranges::equal(kinds, model_words::kTexts) ? " (csv with data.text_column)" : "";
}

constexpr std::array kChoosers{
    Chooser{"model.name",
            [](const Config& config, std::string_view key) { return model_row(config.model.name).takes(key); },
            models_that_take},
    Chooser{"data.kind", [](const Config& config, std::string_view key) { return data_reads(config.data, key); },
            [](std::string_view key) { return one_of(kinds_that_take(key)) + whose_texts(key); }},
    Chooser{"optimizer.name",
            [](const Config& config, std::string_view key) { return rule_row(config.optimizer.name).reads(key); },
            rules_that_read},
    Chooser{"schedule.name",
            [](const Config& config, std::string_view key) { return schedule_reads(config.schedule.kind, key); },
            schedules_that_read},
    Chooser{"train.dtype",
            [](const Config& config, std::string_view key) {
              return key != "train.loss_scale" || config.engine.dtype == DType::kFloat16;
            },
            [](std::string_view) { return std::string("fp16"); }, /*names_keys=*/false}};

// "lr, betas and eps": the keys of the chooser's section that are read with its value.
std::string keys_read(const Config& config, const Chooser& chooser) {
  const std::string_view section = find_option(chooser.name)->section();
  std::vector<std::string_view> keys;
  for (const Option& option : options())
    if (option.section() == section && option.name != chooser.name && chooser.reads(config, option.name))
      keys.push_back(option.key());
  return all_of(keys);
}

// Keys in the config.toml of runs of all versions. A user does not set all of them: no model reads both of the first
// two.
constexpr std::array<std::string_view, 9> kOfEachRun{"model.heads",         "model.sizes",     "optimizer.betas",
                                                     "optimizer.momentum",  "schedule.min_lr", "checkpoint.keep",
                                                     "checkpoint.on_error", "health.spike",    "comm.timeout"};

// Can a run have written this value of a key that nothing reads? It writes defaults. It also writes a schedule.min_lr
// that it derived from the learning rate, and earlier versions accepted min_lr with a constant schedule.
bool is_settled(const LoadedConfig& loaded, const Option& option) {
  return option.name == "schedule.min_lr" ||
         to_toml(get_option(loaded.config, option)) == to_toml(get_option(Config{}, option));
}

}  // namespace

bool is_file_of_a_run(const LoadedConfig& loaded) {
  return std::ranges::all_of(kOfEachRun, [&](std::string_view key) { return loaded.origins.contains(key); });
}

int rank_of(const LoadedConfig& loaded, std::string_view name) {
  const auto origin = loaded.origins.find(name);
  if (origin == loaded.origins.end()) return -1;
  return origin->second == "command line" ? 2 : origin->second.starts_with("ZERO_") ? 1 : kOfFile;
}

void settle_overruled(LoadedConfig& loaded) {
  const Config defaults;
  for (const Option& option : options()) {
    const bool overruled =
        loaded.origins.contains(option.name) && std::ranges::any_of(kChoosers, [&](const Chooser& chooser) {
          return !chooser.reads(loaded.config, option.name) &&
                 rank_of(loaded, option.name) < rank_of(loaded, chooser.name);
        });
    if (!overruled) continue;
    const Value usual = get_option(defaults, option);
    set_option(loaded.config, option, {std::string(option.name), usual, to_toml(usual), "", /*bare=*/false});
    loaded.origins.erase(loaded.origins.find(option.name));
  }
}

void check_keys_are_read(const LoadedConfig& loaded, bool of_a_run) {
  for (const auto& [name, origin] : loaded.origins) {
    const Option& option = *find_option(name);
    if (of_a_run && rank_of(loaded, name) == kOfFile && is_settled(loaded, option)) continue;
    for (const Chooser& chooser : kChoosers) {
      if (chooser.reads(loaded.config, name)) continue;
      const std::string chosen = to_toml(get_option(loaded.config, *find_option(chooser.name)));
      const std::string has =
          chooser.names_keys ? fmt::format("; {} has {}", chosen, keys_read(loaded.config, chooser)) : "";
      throw ConfigError(located(origin, name), shown(to_toml(get_option(loaded.config, option))),
                        fmt::format("{} = {} has no such key", chooser.name, chosen),
                        fmt::format("leave it out, or use {} {}{}", chooser.name, chooser.values_that_read(name), has));
    }
  }
}

}  // namespace zero
