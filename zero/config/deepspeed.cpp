#include "zero/config/deepspeed.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/base/strict_json.h"
#include "zero/config/deepspeed_reader.h"
#include "zero/config/option.h"
#include "zero/config/toml_source.h"
#include "zero/optim/rule_registry.h"

namespace zero {
namespace {

using Json = DeepSpeedReader::Json;

constexpr std::string_view kOptimizer = "optimizer.params.";
constexpr std::string_view kScheduler = "scheduler.params.";
constexpr std::string_view kZero = "zero_optimization.";
constexpr std::string_view kFp16 = "fp16.";
constexpr std::string_view kDefault = "DeepSpeed's default";

// What DeepSpeed has where the file says nothing.
constexpr std::int64_t kWarmup = 1000;
constexpr double kCosineRatio = 1e-4;
constexpr double kScaleWindow = 1000;
constexpr double kHysteresis = 2;

const Json& params_of(DeepSpeedReader& reader, const Json& section, std::string_view prefix) {
  static const Json nothing = Json::object();
  const Json* const params = reader.section(section, "params", prefix);
  return params == nullptr ? nothing : *params;
}

void read_batches(DeepSpeedReader& reader) {
  const Json& json = reader.json();
  reader.keep_whole(json, "", "train_batch_size", "train.global_batch");
  reader.keep_whole(json, "", "train_micro_batch_size_per_gpu", "train.batch");
  reader.keep_whole(json, "", "gradient_accumulation_steps", "train.accumulate");
  reader.keep_whole(json, "", "steps_per_print", "train.log_every");
}

// A number wins that the optimizer has.
void read_clip(DeepSpeedReader& reader) {
  const Json& json = reader.json();
  const auto is_absent = [&json](const Json::json_pointer& key) {
    return !json.contains(key) || json.at(key).is_null();
  };
  reader.keep_number(json, "", "gradient_clipping", "train.clip");
  if (is_absent(Json::json_pointer("/gradient_clipping")) &&
      is_absent(Json::json_pointer("/optimizer/params/max_grad_norm")))
    reader.keep("train.clip", Value(0.0), kDefault);
}

// What a dynamic scale has here, where DeepSpeed has a key for it; `theirs`: its default.
void read_fixed(DeepSpeedReader& reader, const Json& fp16, std::string_view key, double ours, double theirs,
                std::string_view reason) {
  const Json* const given = reader.take(fp16, kFp16, key, "train.loss_scale");
  if (given == nullptr && fp16.contains(std::string(key))) return;  // "auto" is told already
  const std::string name = fmt::format("{}{}", kFp16, key);
  if ((given == nullptr ? theirs : reader.number(*given, name)) != ours) reader.drop(name, reason);
}

void read_loss_scale(DeepSpeedReader& reader, const Json& fp16) {
  const Json* const given = reader.take(fp16, kFp16, "loss_scale", "train.loss_scale");
  const double scale = given == nullptr ? 0 : reader.number(*given, "fp16.loss_scale");
  if (scale > 0) return reader.keep("train.loss_scale", Value(scale), "fp16.loss_scale");
  reader.keep("train.loss_scale", Value(std::string("dynamic")), given == nullptr ? kDefault : "fp16.loss_scale");
  read_fixed(reader, fp16, "initial_scale_power", 16, 16, "a dynamic scale begins at 2^16 here");
  read_fixed(reader, fp16, "loss_scale_window", 2000, kScaleWindow,
             "a dynamic scale is doubled after 2,000 updates here; DeepSpeed's default is 1,000");
  read_fixed(reader, fp16, "min_loss_scale", 1, 1, "a dynamic scale is 1 or more here");
  read_fixed(reader, fp16, "hysteresis", 1, kHysteresis,
             "each overflow halves the scale here, also the first; DeepSpeed's default is 2");
}

void read_types(DeepSpeedReader& reader) {
  for (const std::string_view type : {"bf16", "bfloat16", "fp16"}) {
    const Json* const section = reader.section(reader.json(), type);
    if (section == nullptr) continue;
    const std::string prefix = fmt::format("{}.", type);
    const Json* const enabled = reader.take(*section, prefix, "enabled", "train.dtype");
    if (enabled == nullptr || !reader.flag(*enabled, prefix + "enabled")) continue;
    reader.keep("train.dtype", Value(std::string(type == "fp16" ? "fp16" : "bf16")), prefix + "enabled");
    if (type == "fp16") read_loss_scale(reader, *section);
    reader.drop_rest(*section, prefix);
  }
}

void read_betas(DeepSpeedReader& reader, const Json& params, double usual_beta2) {
  const std::string name = "optimizer.params.betas";
  if (const Json* const betas = reader.take(params, kOptimizer, "betas", "optimizer.betas")) {
    if (!betas->is_array() || betas->size() != 2)
      reader.refuse(name, *betas, "is no list of two numbers", "write [0.9, 0.999]");
    reader.keep("optimizer.betas",
                Value(Value::Array{Value(reader.number((*betas)[0], name)), Value(reader.number((*betas)[1], name))}),
                name);
  } else if (!params.contains("betas")) {
    reader.keep("optimizer.betas", Value(Value::Array{Value(0.9), Value(usual_beta2)}), kDefault);
  }
}

// DeepSpeed gives the two ends apart.
void read_trust_ratio(DeepSpeedReader& reader, const Json& params) {
  const auto end = [&](const char* key, double usual) {
    const Json* const given = reader.take(params, kOptimizer, key, "optimizer.trust_ratio");
    return given == nullptr ? usual : reader.number(*given, fmt::format("{}{}", kOptimizer, key));
  };
  const double least = end("min_coeff", 0.01), most = end("max_coeff", 10);
  reader.keep("optimizer.trust_ratio", Value(Value::Array{Value(least), Value(most)}),
              params.contains("min_coeff") || params.contains("max_coeff") ? "optimizer.params.max_coeff" : kDefault);
}

// Its "Adam" is AdamW, too, unless it says otherwise; its "AdamW" is AdamW whatever it says.
std::string read_adam(DeepSpeedReader& reader, const Json& params, const std::string& name) {
  constexpr std::string_view kMode = "optimizer.params.adam_w_mode";
  const Json* const decoupled = reader.take(params, kOptimizer, "adam_w_mode", "optimizer.name");
  if (decoupled == nullptr || reader.flag(*decoupled, kMode)) return "adamw";
  if (name == "adamw") reader.drop(kMode, "the decay of AdamW is decoupled whatever it says, in DeepSpeed, too");
  return name;
}

// Muon for matrices, and AdamW for the rest: one rate for both, or one of their own each.
void read_muon(DeepSpeedReader& reader, const Json& params) {
  if (reader.keep_number(params, kOptimizer, "lr", "optimizer.lr"))
    reader.keep_number(params, kOptimizer, "lr", "optimizer.adamw_lr");
  reader.keep_number(params, kOptimizer, "muon_lr", "optimizer.lr");
  reader.keep_number(params, kOptimizer, "adam_lr", "optimizer.adamw_lr");
  reader.keep_number(params, kOptimizer, "momentum", "optimizer.momentum");
  const Json* const method = reader.take(params, kOptimizer, "ns_method", "[optimizer]");
  if (method != nullptr && reader.text(*method, "optimizer.params.ns_method") != "standard")
    reader.drop("optimizer.params.ns_method", "the iteration is the standard one, in fp32");
  const Json* const by_head = reader.take(params, kOptimizer, "per_head_muon", "[optimizer]");
  if (by_head != nullptr && reader.flag(*by_head, "optimizer.params.per_head_muon"))
    reader.drop("optimizer.params.per_head_muon", "each matrix has one direction, whatever heads it has");
}

// The rules that DeepSpeed has, too, by our names.
struct TheirRule {
  std::string_view name;
  double usual_beta2 = 0.999;
};
constexpr std::array kTheirRules{TheirRule{"adamw"}, TheirRule{"adam"},       TheirRule{"sgd"},
                                 TheirRule{"lamb"},  TheirRule{"lion", 0.99}, TheirRule{"muon"}};

std::string their_rule_names() {
  std::string names;
  for (const TheirRule& rule : kTheirRules) {
    const bool last = rule.name == kTheirRules.back().name;
    names += fmt::format("{}{}", names.empty() ? "" : last ? " and " : ", ", rule.name);
  }
  return names;
}

void read_optimizer(DeepSpeedReader& reader) {
  const Json* const section = reader.section(reader.json(), "optimizer");
  if (section == nullptr) return reader.drop("optimizer", "not in the file: set [optimizer] as the program has it");
  const Json* const type = reader.take(*section, "optimizer.", "type", "optimizer.name");
  const Json& params = params_of(reader, *section, "optimizer.");
  const std::string given = type == nullptr ? "adamw" : reader.text(*type, "optimizer.type");
  std::string name = given;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  reader.keep_number(params, kOptimizer, "max_grad_norm", "train.clip");
  const auto* const known = std::ranges::find(kTheirRules, name, &TheirRule::name);
  if (known == kTheirRules.end())
    return reader.drop("optimizer.type",
                       fmt::format("\"{}\" is none of {}: set [optimizer]", shown(given), their_rule_names()));
  if (name == "adam" || name == "adamw") name = read_adam(reader, params, name);
  reader.keep("optimizer.name", Value(name), name == "adam" ? "optimizer.params.adam_w_mode" : "optimizer.type");
  const RuleRow& rule = rule_row(name);
  rule.needs == RuleNeeds::kMatrices ? read_muon(reader, params)
                                     : static_cast<void>(reader.keep_number(params, kOptimizer, "lr", "optimizer.lr"));
  reader.keep_number(params, kOptimizer, "weight_decay", "optimizer.weight_decay",
                     "; here of tensors with two or more dimensions");
  if (!params.contains("weight_decay")) reader.keep("optimizer.weight_decay", Value(0.0), kDefault);
  if (rule.needs != RuleNeeds::kMatrices && rule.reads("optimizer.momentum"))
    reader.keep_number(params, kOptimizer, "momentum", "optimizer.momentum");
  if (rule.reads("optimizer.betas")) read_betas(reader, params, known->usual_beta2);
  if (rule.reads("optimizer.trust_ratio")) read_trust_ratio(reader, params);
  if (rule.reads("optimizer.eps")) reader.keep_number(params, kOptimizer, "eps", "optimizer.eps");
  reader.drop_rest(params, kOptimizer);
}

void constant_rate(DeepSpeedReader& reader, std::string_view from) {
  reader.keep("schedule.name", Value(std::string("constant")), from);
  reader.keep("schedule.warmup", Value(std::int64_t{0}), from);
}

void read_warmup(DeepSpeedReader& reader, const Json& params) {
  reader.keep_whole(params, kScheduler, "warmup_num_steps", "schedule.warmup");
  if (!params.contains("warmup_num_steps")) reader.keep("schedule.warmup", Value(kWarmup), kDefault);
  const Json* const shape = reader.take(params, kScheduler, "warmup_type", "schedule.warmup");
  const bool linear = shape != nullptr && reader.text(*shape, "scheduler.params.warmup_type") == "linear";
  if (!linear && (shape != nullptr || !params.contains("warmup_type")))
    reader.drop("scheduler.params.warmup_type", "the warm-up is linear here; DeepSpeed's default is logarithmic");
  for (const std::string_view key : {"warmup_min_lr", "warmup_min_ratio"}) {
    const std::string name = fmt::format("{}{}", kScheduler, key);
    const Json* const lowest = reader.take(params, kScheduler, key, "schedule.warmup");
    if (lowest != nullptr && reader.number(*lowest, name) != 0)
      reader.drop(name, "the warm-up begins near 0, at lr / (warmup + 1)");
  }
}

// After the optimizer: its learning rate is known.
void read_scheduler(DeepSpeedReader& reader) {
  const Json* const section = reader.section(reader.json(), "scheduler");
  if (section == nullptr) return constant_rate(reader, "no scheduler in the file");
  const Json* const type = reader.take(*section, "scheduler.", "type", "schedule.name");
  const Json& params = params_of(reader, *section, "scheduler.");
  const std::string name = type == nullptr ? "" : reader.text(*type, "scheduler.type");
  const bool linear = name == "WarmupDecayLR";
  const bool cosine = name == "WarmupCosineLR";
  if (!linear && !cosine && name != "WarmupLR") {
    if (type != nullptr)
      reader.drop("scheduler.type", fmt::format("\"{}\" has no counterpart: set [schedule]", shown(name)));
    return constant_rate(reader, "no schedule that zero.cpp has");
  }
  reader.keep("schedule.name",
              Value(std::string(linear   ? "linear"
                                : cosine ? "cosine"
                                         : "constant")),
              "scheduler.type");
  reader.keep_number(params, kScheduler, "warmup_max_lr", "optimizer.lr");
  read_warmup(reader, params);
  reader.keep_whole(params, kScheduler, "total_num_steps", "train.steps");
  if (linear) reader.keep("schedule.min_lr", Value(0.0), "scheduler.type");
  if (cosine) {
    const Json* const ratio = reader.take(params, kScheduler, "cos_min_ratio", "schedule.min_lr");
    const double part = ratio == nullptr ? kCosineRatio : reader.number(*ratio, "scheduler.params.cos_min_ratio");
    reader.keep("schedule.min_lr", Value(part * reader.kept_number("optimizer.lr", Config{}.optimizer.lr)),
                "scheduler.params.cos_min_ratio * lr");
  }
  reader.drop_rest(params, kScheduler);
}

// Where one of DeepSpeed's offload sections puts a state: our tier, or nothing; and the name of the key that said so.
struct Offload {
  std::string tier, from;
  double part = 1;
};

// `old`: the keys of earlier versions, true or false, for the host.
Offload read_offload(DeepSpeedReader& reader, const Json& zero, std::string_view key,
                     std::initializer_list<std::string_view> old, Value::Array& disks) {
  Offload offload{.from = fmt::format("{}{}", kZero, key)};
  const std::string prefix = offload.from + ".";
  if (const Json* const section = reader.section(zero, key, kZero)) {
    const Json* const device = reader.take(*section, prefix, "device", "[zero]");
    const Json* const folder = reader.take(*section, prefix, "nvme_path", "zero.disk");
    const Json* const ratio = reader.take(*section, prefix, "ratio", "zero.optimizer");
    const std::string name = device == nullptr ? "none" : reader.text(*device, prefix + "device");
    if (ratio != nullptr) offload.part = reader.number(*ratio, prefix + "ratio");
    if (name == "cpu") {
      offload.tier = "host";
    } else if (name == "nvme") {
      if (folder == nullptr)
        reader.refuse(prefix + "device", *device, "no nvme_path is given",
                      "add \"nvme_path\": \"/folder/on/that/disk\"");
      offload.tier = "disk";
      const Value path(reader.text(*folder, prefix + "nvme_path"));
      if (std::ranges::find(disks, path) == disks.end()) disks.push_back(path);
    } else if (name != "none") {
      reader.refuse(prefix + "device", *device, "is no device", "DeepSpeed has none, cpu and nvme");
    }
    if (!offload.tier.empty()) reader.drop_rest(*section, prefix);
  }
  for (const std::string_view flag : old) {
    const Json* const given = reader.take(zero, kZero, flag, "[zero]");
    const std::string name = fmt::format("{}{}", kZero, flag);
    if (given != nullptr && reader.flag(*given, name) && offload.tier.empty()) offload = {.tier = "host", .from = name};
  }
  return offload;
}

Value fraction(std::string_view tier, double part) {
  return Value(Value::Table{{std::string(tier), Value(part)}});
}

// ZeRO++: weights in 8 bits, gradients in 4.
void read_codecs(DeepSpeedReader& reader, const Json& zero, std::int64_t stage) {
  const auto read = [&](std::string_view key, std::string_view ours, std::string_view codec, bool possible) {
    const std::string name = fmt::format("{}{}", kZero, key);
    const Json* const given = reader.take(zero, kZero, key, ours);
    if (given == nullptr) return;
    if (!reader.flag(*given, name)) return reader.drop(name, "values cross as they are");
    possible ? reader.keep(ours, Value(std::string(codec)), name)
             : reader.drop(name, "below stage 3 none are gathered");
  };
  read("zero_quantized_weights", "comm.gather_wire", "int8", stage == 3);
  read("zero_quantized_gradients", "comm.reduce_wire", "int4", true);
}

void read_secondary(DeepSpeedReader& reader, const Json& zero, std::int64_t stage) {
  const Json* const given = reader.take(zero, kZero, "zero_hpz_partition_size", "zero.secondary_group");
  if (given == nullptr) return;
  const std::string name = fmt::format("{}zero_hpz_partition_size", kZero);
  const std::int64_t ranks = reader.whole(*given, name);
  if (ranks <= 1) return reader.drop(name, "it is off there, and here");
  if (stage != 3) return reader.drop(name, "below stage 3 nothing is gathered twice");
  reader.keep("zero.secondary_group", Value(ranks), name);
}

void read_states(DeepSpeedReader& reader) {
  const Json* const zero = reader.section(reader.json(), "zero_optimization");
  if (zero == nullptr) return reader.keep("zero.stage", Value(std::int64_t{0}), kDefault);
  const Json* const given = reader.take(*zero, kZero, "stage", "zero.stage");
  const std::int64_t stage = given == nullptr ? 0 : reader.whole(*given, "zero_optimization.stage");
  reader.keep("zero.stage", Value(stage), given == nullptr ? kDefault : "zero_optimization.stage");
  if (const Json* const shard = reader.take(*zero, kZero, "mics_shard_size", "zero.group")) {
    const std::string name = fmt::format("{}mics_shard_size", kZero);
    const std::int64_t group = reader.whole(*shard, name);
    group > 0 ? reader.keep("zero.group", Value(group), name) : reader.drop(name, "zero.group is auto then");
  }
  read_codecs(reader, *zero, stage);
  read_secondary(reader, *zero, stage);
  Value::Array disks;
  const Offload optimizer = read_offload(reader, *zero, "offload_optimizer", {"cpu_offload"}, disks);
  const Offload parameter =
      read_offload(reader, *zero, "offload_param", {"cpu_offload_param", "cpu_offload_params"}, disks);
  if (!optimizer.tier.empty() && stage == 0)
    reader.drop(
        optimizer.from,
        fmt::format("DeepSpeed offloads nothing at stage 0; here zero.optimizer = {{{} = 1}} works at any stage",
                    optimizer.tier));
  if (!optimizer.tier.empty() && stage > 0)
    reader.keep("zero.optimizer", fraction(optimizer.tier, optimizer.part), optimizer.from);
  // DeepSpeed takes the gradients to the host, too.
  if (!optimizer.tier.empty() && stage > 1)
    reader.keep("zero.gradient", fraction("host", optimizer.part), optimizer.from);
  if (!parameter.tier.empty() && stage < 3)
    reader.drop(parameter.from, "parameters leave the device at stage 3 alone; DeepSpeed says so, too");
  if (!parameter.tier.empty() && stage == 3) reader.keep("zero.parameter", fraction(parameter.tier, 1), parameter.from);
  if (!disks.empty()) reader.keep("zero.disk", Value(disks), "nvme_path");
  reader.drop_rest(*zero, kZero);
}

}  // namespace

ConvertedConfig convert_deepspeed(std::string_view json, std::string_view path) {
  constexpr std::string_view kRemedy = "name DeepSpeed's JSON file, such as ds_config.json";
  if (json.size() > kMaxConfigBytes)
    throw ConfigError(path, "", fmt::format("{} bytes are no configuration", json.size()), kRemedy);
  Json parsed;
  try {
    parsed = parse_strictly(json, path);
  } catch (const IoError& error) {  // the user wrote this file: it is no damaged one
    std::string_view reason = error.what();
    if (const std::string head = fmt::format("{}: verify: ", path); reason.starts_with(head))
      reason.remove_prefix(head.size());
    throw ConfigError("FILE", path, reason, kRemedy);
  }
  if (!parsed.is_object()) throw ConfigError("FILE", path, "holds no JSON object", kRemedy);
  DeepSpeedReader reader(parsed, path);
  read_batches(reader);
  read_clip(reader);
  read_types(reader);
  read_optimizer(reader);
  read_scheduler(reader);
  read_states(reader);
  reader.drop_rest(parsed, "");
  return reader.finish();
}

std::string to_toml(const ConvertedConfig& converted, std::string_view path) {
  std::string out = fmt::format(
      "# Made by zero convert from {}. The model and the data are not in that file: fill in [model] and [data].\n",
      shown(path));
  std::size_t width = 0;
  for (const DroppedKey& dropped : converted.dropped) width = std::max(width, dropped.name.size());
  if (!converted.dropped.empty()) out += "#\n# Not carried over:\n";
  for (const DroppedKey& dropped : converted.dropped)
    out += fmt::format("#   {:<{}}  {}\n", dropped.name, width, dropped.reason);
  out += "\n[model]\n\n[data]\npath = \"\"\n";
  for (const auto section : sections()) {
    std::string keys;
    for (const KeptKey& kept : converted.kept) {
      const Option* const option = find_option(kept.name);
      if (option->section() != section) continue;
      const std::string line = fmt::format("{} = {}", option->key(), to_toml(kept.value));
      keys += fmt::format("{:<32}  # {}\n", line, kept.from);
    }
    if (!keys.empty()) out += fmt::format("\n[{}]\n{}", section, keys);
  }
  return out;
}

}  // namespace zero
