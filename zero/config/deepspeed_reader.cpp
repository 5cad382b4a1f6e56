#include "zero/config/deepspeed_reader.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/config/option.h"

namespace zero {
namespace {

using Json = DeepSpeedReader::Json;

constexpr double kLargest = 1e15;  // of whole numbers; a double holds them exactly

// Whether a key asks for nothing: null, false, or a section that is not enabled.
bool switched_off(const Json& json) {
  if (json.is_null()) return true;
  if (json.is_boolean()) return !json.get<bool>();
  if (!json.is_object()) return false;
  const auto enabled = json.find("enabled");
  return enabled != json.end() && enabled->is_boolean() && !enabled->get<bool>();
}

std::string joined(std::string_view prefix, std::string_view key) {
  return fmt::format("{}{}", prefix, key);
}

}  // namespace

const Json* DeepSpeedReader::take(const Json& object, std::string_view prefix, std::string_view key,
                                  std::string_view ours) {
  const std::string name = joined(prefix, key);
  taken_.insert(name);
  const auto found = object.find(std::string(key));
  if (found == object.end() || found->is_null()) return nullptr;
  if (*found != "auto") return &*found;
  drop(name, fmt::format("\"auto\" is filled in by the program that calls DeepSpeed; set {}", ours));
  return nullptr;
}

const Json* DeepSpeedReader::section(const Json& object, std::string_view key, std::string_view prefix) {
  const std::string name = joined(prefix, key);
  taken_.insert(name);
  const auto found = object.find(std::string(key));
  if (found == object.end() || found->is_null()) return nullptr;
  if (!found->is_object()) refuse(name, *found, "is no object", "write {\"KEY\": VALUE}");
  return &*found;
}

double DeepSpeedReader::number(const Json& json, std::string_view name) const {
  if (!json.is_number()) refuse(name, json, "is no number", "write a number, or \"auto\"");
  return json.get<double>();
}

std::int64_t DeepSpeedReader::whole(const Json& json, std::string_view name) const {
  const double value = number(json, name);
  if (value != std::floor(value) || std::abs(value) > kLargest)
    refuse(name, json, "is no whole number", "write a whole number, or \"auto\"");
  return static_cast<std::int64_t>(value);
}

bool DeepSpeedReader::flag(const Json& json, std::string_view name) const {
  if (!json.is_boolean()) refuse(name, json, "is neither true nor false", "write true, false or \"auto\"");
  return json.get<bool>();
}

std::string DeepSpeedReader::text(const Json& json, std::string_view name) const {
  if (!json.is_string()) refuse(name, json, "is no text", "write it in quotes");
  return json.get<std::string>();
}

void DeepSpeedReader::refuse(std::string_view name, const Json& value, std::string_view reason,
                             std::string_view remedy) const {
  throw ConfigError(fmt::format("{}: {}", path_, name),
                    shown(value.dump(-1, ' ', true, Json::error_handler_t::replace)), reason, remedy);
}

void DeepSpeedReader::keep(std::string_view ours, const Value& value, std::string_view from) {
  Config checked;
  set_option(checked, *find_option(ours),
             {std::string(ours), value, to_toml(value), fmt::format("{}: {}", path_, from)});
  std::erase_if(out_.kept, [&](const KeptKey& kept) { return kept.name == ours; });
  out_.kept.push_back({std::string(ours), value, std::string(from)});
}

void DeepSpeedReader::keep_whole(const Json& object, std::string_view prefix, std::string_view key,
                                 std::string_view ours) {
  const std::string name = joined(prefix, key);
  if (const Json* const found = take(object, prefix, key, ours)) keep(ours, Value(whole(*found, name)), name);
}

bool DeepSpeedReader::keep_number(const Json& object, std::string_view prefix, std::string_view key,
                                  std::string_view ours, std::string_view remark) {
  const std::string name = joined(prefix, key);
  const Json* const found = take(object, prefix, key, ours);
  if (found != nullptr) keep(ours, Value(number(*found, name)), joined(name, remark));
  return found != nullptr;
}

double DeepSpeedReader::kept_number(std::string_view ours, double otherwise) const {
  const auto found = std::ranges::find(out_.kept, ours, &KeptKey::name);
  return found == out_.kept.end() ? otherwise : std::get<double>(found->value.data);
}

void DeepSpeedReader::drop(std::string_view name, std::string_view reason) {
  out_.dropped.push_back({shown(name), std::string(reason)});
}

void DeepSpeedReader::drop_rest(const Json& object, std::string_view prefix) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = joined(prefix, key);
    if (taken_.insert(name).second && !switched_off(value)) drop(name, reason_to_drop(name));
  }
}

ConvertedConfig DeepSpeedReader::finish() {
  std::ranges::stable_sort(out_.kept, {},
                           [](const KeptKey& kept) { return find_option(kept.name) - options().data(); });
  return std::move(out_);
}

}  // namespace zero
