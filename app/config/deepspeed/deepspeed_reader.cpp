#include "app/config/deepspeed/deepspeed_reader.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

#include "app/config/deepspeed/deepspeed_defaults.h"
#include "app/config/options/option.h"

namespace zero {
namespace {

using Json = DeepSpeedReader::Json;

constexpr double kLargest = 1e15;  // the largest whole number that is accepted; a double holds it exactly

// Is the value null, false, or a section that is not enabled?
bool switched_off(const Json& json) {
  if (json.is_null()) return true;
  if (json.is_boolean()) return !json.get<bool>();
  if (!json.is_object()) return false;
  const auto enabled = json.find("enabled");
  return enabled != json.end() && enabled->is_boolean() && !enabled->get<bool>();
}

// Is a key that the Trainer fills in "auto"?
bool leaves_values_to_the_trainer(const Json& json) {
  const auto is_auto = [&](std::string_view name) {
    std::string path = fmt::format("/{}", name);
    std::ranges::replace(path, '.', '/');
    const Json::json_pointer pointer(path);
    return json.contains(pointer) && json.at(pointer) == "auto";
  };
  constexpr std::array<std::string_view, 5> kByModel{
      "train_batch_size", "scheduler.params.warmup_min_lr", "zero_optimization.reduce_bucket_size",
      "zero_optimization.stage3_prefetch_bucket_size", "zero_optimization.stage3_param_persistence_threshold"};
  return std::ranges::any_of(kByModel, is_auto) ||
         std::ranges::any_of(trainer_defaults(), is_auto, &TrainerDefault::name);
}

// DeepSpeed ignores "auto" in these sections, and uses its own default.
bool skips_auto(std::string_view name) {
  constexpr std::array<std::string_view, 4> kTheirSections{"zero_optimization.", "fp16.", "bf16.", "bfloat16."};
  return std::ranges::any_of(kTheirSections, [&](std::string_view section) { return name.starts_with(section); });
}

std::string joined(std::string_view prefix, std::string_view key) {
  return fmt::format("{}{}", prefix, key);
}

}  // namespace

DeepSpeedReader::DeepSpeedReader(const Json& json, std::string_view path)
    : json_(json), values_(path), is_for_the_trainer_(leaves_values_to_the_trainer(json)) {}

const Json* DeepSpeedReader::take(const Json& object, std::string_view prefix, std::string_view key,
                                  std::string_view ours) {
  const std::string name = joined(prefix, key);
  taken_.insert(name);
  const auto found = object.find(std::string(key));
  if (found == object.end() || found->is_null()) return nullptr;
  if (*found != "auto") return &*found;
  if (const TrainerDefault* const row = trainer_default(name))
    return &assumed_.insert_or_assign(name, Json::parse(row->json)).first->second;
  if (skips_auto(name)) return nullptr;
  drop(name, fmt::format("\"auto\" is filled in by the program that calls DeepSpeed; set {}", ours));
  return nullptr;
}

const Json* DeepSpeedReader::section(const Json& object, std::string_view key, std::string_view prefix) {
  const std::string name = joined(prefix, key);
  taken_.insert(name);
  const auto found = object.find(std::string(key));
  if (found == object.end() || found->is_null()) return nullptr;
  if (!found->is_object()) values_.refuse(name, *found, "is not an object", "write {\"KEY\": VALUE}");
  return &*found;
}

double DeepSpeedValues::number(const Json& json, std::string_view name) const {
  if (!json.is_number()) refuse(name, json, "is not a number", "write a number, or \"auto\"");
  return json.get<double>();
}

std::int64_t DeepSpeedValues::whole(const Json& json, std::string_view name) const {
  const double value = number(json, name);
  if (value != std::floor(value) || std::abs(value) > kLargest)
    refuse(name, json, "is not a whole number", "write a whole number, or \"auto\"");
  return static_cast<std::int64_t>(value);
}

bool DeepSpeedValues::flag(const Json& json, std::string_view name) const {
  if (!json.is_boolean()) refuse(name, json, "is neither true nor false", "write true, false or \"auto\"");
  return json.get<bool>();
}

std::string DeepSpeedValues::text(const Json& json, std::string_view name) const {
  if (!json.is_string()) refuse(name, json, "is not a text", "write it in quotes");
  return json.get<std::string>();
}

void DeepSpeedValues::refuse(std::string_view name, const Json& value, std::string_view reason,
                             std::string_view remedy) const {
  throw ConfigError(fmt::format("{}: {}", path_, name),
                    shown(value.dump(-1, ' ', true, Json::error_handler_t::replace)), reason, remedy);
}

void DeepSpeedReader::keep(std::string_view ours, const Value& value, std::string_view from) {
  Config checked;
  set_option(checked, *find_option(ours),
             {std::string(ours), value, to_toml(value), fmt::format("{}: {}", values_.path(), from)});
  std::erase_if(out_.kept, [&](const KeptKey& kept) { return kept.name == ours; });
  const std::string_view name = from.substr(0, from.find(';'));
  const TrainerDefault* const row = assumed_.contains(name) ? trainer_default(name) : nullptr;
  if (row != nullptr) return assume(ours, value, from, row->field);
  out_.kept.push_back({std::string(ours), value, std::string(from)});
}

void DeepSpeedReader::assume(std::string_view ours, const Value& value, std::string_view name, std::string_view field) {
  std::erase_if(out_.kept, [&](const KeptKey& kept) { return kept.name == ours; });
  out_.kept.push_back(
      {std::string(ours), value, fmt::format("{}: the default of TrainingArguments' {}", name, field), true});
}

void DeepSpeedReader::assume_default(std::string_view name, std::string_view ours) {
  const TrainerDefault* const row = trainer_default(name);
  ZERO_CHECK(row != nullptr, "the Trainer has no default of {}", name);
  const bool in_file = assumed_.contains(name);
  assume(ours, parse_value(row->json), in_file ? name : "not in the file", row->field);
}

const Value* DeepSpeedReader::find(std::string_view ours) const {
  const auto found = std::ranges::find(out_.kept, ours, &KeptKey::name);
  return found == out_.kept.end() ? nullptr : &found->value;
}

void DeepSpeedReader::keep_whole(const Json& object, std::string_view prefix, std::string_view key,
                                 std::string_view ours) {
  const std::string name = joined(prefix, key);
  if (const Json* const found = take(object, prefix, key, ours)) keep(ours, Value(values_.whole(*found, name)), name);
}

bool DeepSpeedReader::keep_number(const Json& object, std::string_view prefix, std::string_view key,
                                  std::string_view ours, std::string_view remark) {
  const std::string name = joined(prefix, key);
  const Json* const found = take(object, prefix, key, ours);
  if (found != nullptr) keep(ours, Value(values_.number(*found, name)), joined(name, remark));
  return found != nullptr;
}

void DeepSpeedReader::drop(std::string_view name, std::string_view reason) {
  out_.dropped.push_back({shown(name), std::string(reason)});
}

void DeepSpeedReader::take_and_drop(const Json& object, std::string_view prefix, std::string_view key,
                                    std::string_view reason) {
  const std::string name = joined(prefix, key);
  taken_.insert(name);
  if (object.contains(std::string(key))) drop(name, reason);
}

void DeepSpeedReader::drop_rest(const Json& object, std::string_view prefix) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = joined(prefix, key);
    const bool asks = !switched_off(value) || (value == false && false_counts(name));
    if (taken_.insert(name).second && asks) drop(name, reason_to_drop(name));
  }
}

ConvertedConfig DeepSpeedReader::finish() {
  std::ranges::stable_sort(out_.kept, {},
                           [](const KeptKey& kept) { return find_option(kept.name) - options().data(); });
  return std::move(out_);
}

}  // namespace zero
