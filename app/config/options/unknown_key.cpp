#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"

#include "app/config/options/option.h"
#include "app/config/options/suggest.h"

namespace zero {
namespace {

// Names of the same keys in Hugging Face's Trainer and in DeepSpeed. They are refused with the key of zero.cpp.
struct Foreign {
  std::string_view theirs, ours;
};
constexpr std::array kForeign{Foreign{"learning_rate", "optimizer.lr"},
                              Foreign{"per_device_train_batch_size", "train.batch"},
                              Foreign{"train_micro_batch_size_per_gpu", "train.batch"},
                              Foreign{"train_batch_size", "train.global_batch"},
                              Foreign{"gradient_accumulation_steps", "train.accumulate"},
                              Foreign{"max_steps", "train.steps"},
                              Foreign{"num_train_epochs", "train.epochs"},
                              Foreign{"label_smoothing_factor", "train.label_smoothing"},
                              Foreign{"max_grad_norm", "train.clip"},
                              Foreign{"gradient_clipping", "train.clip"},
                              Foreign{"gradient_checkpointing", "train.checkpoint_activations"},
                              Foreign{"warmup_steps", "schedule.warmup"},
                              Foreign{"lr_scheduler_type", "schedule.name"},
                              Foreign{"logging_steps", "train.log_every"},
                              Foreign{"save_steps", "checkpoint.every"},
                              Foreign{"save_total_limit", "checkpoint.keep"},
                              Foreign{"output_dir", "run.dir"}};

std::string keys_of(std::string_view section) {
  std::string keys;
  for (const auto& option : options()) {
    if (option.section() == section) keys += fmt::format("{}{}", keys.empty() ? "" : " ", option.key());
  }
  return keys;
}

}  // namespace

void throw_unknown(std::string_view origin, std::string_view name, std::string_view value) {
  const std::string_view key = name.substr(name.rfind('.') + 1);
  const std::string_view section = name.substr(0, name.find('.'));
  std::string hint;
  for (const auto& foreign : kForeign) {
    if (foreign.theirs == key) hint = fmt::format("did you mean '{}'? ", foreign.ours);
  }
  // The key exists in another section.
  for (const auto& option : options()) {
    if (hint.empty() && option.key() == key) hint = fmt::format("did you mean '{}'? ", option.name);
  }
  if (hint.empty()) {
    std::vector<std::string_view> names;
    for (const auto& option : options()) names.push_back(option.name);
    hint = did_you_mean(name, names);
  }
  if (const bool is_section = name == section && !keys_of(section).empty(); is_section)
    throw ConfigError(located(origin, shown(name)), shown(value), "a section, not a key",
                      fmt::format("write [{}], and its keys below: {}", section, keys_of(section)));
  // If the section is misspelt and its key exists, the loop above has found the key. Else a similar section is
  // suggested.
  const bool known_section = std::find(sections().begin(), sections().end(), section) != sections().end();
  if (hint.empty() && !known_section) hint = did_you_mean(section, sections());
  const std::string keys = keys_of(section);
  const std::string remedy = keys.empty() ? fmt::format("sections: {}", fmt::join(sections(), " "))
                                          : fmt::format("keys of [{}]: {}", section, keys);
  throw ConfigError(located(origin, shown(name)), shown(value), "unknown key", hint + remedy);
}

}  // namespace zero
