#include "app/config/deepspeed/deepspeed.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/strict_json.h"
#include "zero/base/text/name_lists.h"
#include "zero/optim/rule_registry.h"

#include "app/config/deepspeed/deepspeed_defaults.h"
#include "app/config/deepspeed/deepspeed_reader.h"
#include "app/config/options/option.h"
#include "app/config/toml_source.h"

namespace zero {
namespace {

using Json = DeepSpeedReader::Json;

constexpr std::string_view kTheirOptimizer = "optimizer.params.";
constexpr std::string_view kScheduler = "scheduler.params.";
constexpr std::string_view kZero = "zero_optimization.";
constexpr std::string_view kFp16 = "fp16.";
constexpr std::string_view kDefault = "DeepSpeed's default";

const Json& params_of(DeepSpeedReader& reader, const Json& section, std::string_view prefix) {
  static const Json nothing = Json::object();
  const Json* const params = reader.section(section, "params", prefix);
  return params == nullptr ? nothing : *params;
}

// Returns the type or the learning rate that is kept so far, or our default.
std::string kept_dtype(const DeepSpeedReader& reader) {
  const Value* const kept = reader.find("train.dtype");
  return kept == nullptr ? "fp32" : std::get<std::string>(kept->data);
}

double kept_rate(const DeepSpeedReader& reader) {
  const Value* const kept = reader.find("optimizer.lr");
  return kept == nullptr ? Config{}.optimizer.lr : std::get<double>(kept->data);
}

// DeepSpeed derives a missing batch, accumulation or global batch. The Trainer does the same if the value is "auto".
void read_batches(DeepSpeedReader& reader) {
  const Json& json = reader.json();
  const auto is = [&json](const char* key, bool (*test)(const Json&)) {
    return json.contains(key) && test(json.at(key));
  };
  const auto automatic = +[](const Json& value) { return value == "auto"; };
  const auto number = +[](const Json& value) { return value.is_number(); };
  constexpr const char *kAll = "train_batch_size", *kMicro = "train_micro_batch_size_per_gpu",
                       *kAccumulate = "gradient_accumulation_steps";
  if (is(kAll, automatic)) {
    reader.take_and_drop(json, "", kAll, "it is batch * accumulate * ranks");
    if (!json.contains(kMicro)) reader.assume_default(kMicro, "train.batch");
  } else {
    reader.keep_whole(json, "", kAll, "train.global_batch");
  }
  reader.keep_whole(json, "", kMicro, "train.batch");
  if (is(kAll, number) && is(kAccumulate, automatic))
    reader.take_and_drop(json, "", kAccumulate, "it follows from train.global_batch, train.batch and the ranks");
  else
    reader.keep_whole(json, "", kAccumulate, "train.accumulate");
  if (reader.find("train.global_batch") == nullptr && reader.find("train.batch") == nullptr)
    reader.drop(kMicro, "not in the file, nor train_batch_size, and DeepSpeed needs one of them: set train.batch");
  reader.keep_whole(json, "", "steps_per_print", "train.log_every");
}

void read_clip(DeepSpeedReader& reader) {
  if (!reader.keep_number(reader.json(), "", "gradient_clipping", "train.clip"))
    reader.keep("train.clip", Value(deepspeed_default("gradient_clipping")), kDefault);
}

// Reads a property of a dynamic scale that is a key in DeepSpeed, and constant here.
void read_fixed(DeepSpeedReader& reader, const Json& fp16, std::string_view key, double ours, std::string_view reason) {
  const std::string name = fmt::format("{}{}", kFp16, key);
  const Json* const given = reader.take(fp16, kFp16, key, "train.loss_scale");
  if ((given == nullptr ? deepspeed_default(name) : reader.values().number(*given, name)) != ours)
    reader.drop(name, reason);
}

void read_loss_scale(DeepSpeedReader& reader, const Json& fp16) {
  const Json* const given = reader.take(fp16, kFp16, "loss_scale", "train.loss_scale");
  const double scale =
      given == nullptr ? deepspeed_default("fp16.loss_scale") : reader.values().number(*given, "fp16.loss_scale");
  if (scale > 0) return reader.keep("train.loss_scale", Value(scale), "fp16.loss_scale");
  reader.keep("train.loss_scale", Value(std::string("dynamic")), given == nullptr ? kDefault : "fp16.loss_scale");
  read_fixed(reader, fp16, "initial_scale_power", 16, "a dynamic scale begins at 2^16 here");
  read_fixed(reader, fp16, "loss_scale_window", 2000,
             "a dynamic scale is doubled after 2,000 updates here; DeepSpeed's default is 1,000");
  read_fixed(reader, fp16, "min_loss_scale", 1, "a dynamic scale is 1 or more here");
  read_fixed(reader, fp16, "hysteresis", 1,
             "each overflow halves the scale here, also the first; DeepSpeed's default is 2");
}

// DeepSpeed reads "bfloat16", the older name, only if there is no "bf16".
void read_precision(DeepSpeedReader& reader) {
  const Json& json = reader.json();
  const bool has_newer = json.contains("bf16") && !json.at("bf16").is_null();
  if (has_newer && json.contains("bfloat16")) reader.take_and_drop(json, "", "bfloat16", "bf16 is also in the file");
  std::string enabled_name, automatic;
  for (const std::string_view type : {has_newer ? "bf16" : "bfloat16", "fp16"}) {
    const Json* const section = reader.section(json, type);
    if (section == nullptr) continue;
    const std::string prefix = fmt::format("{}.", type), name = prefix + "enabled";
    const Json* const enabled = reader.take(*section, prefix, "enabled", "train.dtype");
    if (section->contains("enabled") && section->at("enabled") == "auto") automatic = name;
    if (enabled == nullptr || !reader.values().flag(*enabled, name)) continue;
    if (!enabled_name.empty())
      reader.values().refuse(name, *enabled, fmt::format("{} is also true, and DeepSpeed refuses both", enabled_name),
                             "set one of them to false");
    enabled_name = name;
    reader.keep("train.dtype", Value(std::string(type == "fp16" ? "fp16" : "bf16")), name);
    if (type == "fp16") read_loss_scale(reader, *section);
    reader.drop_rest(*section, prefix);
  }
  if (enabled_name.empty() && !automatic.empty())
    reader.assume("train.dtype", Value(std::string("fp32")), automatic, "bf16 and fp16");
}

// fp32 also has longer names there: "float32", "torch.float32".
std::string type_named(DeepSpeedReader& reader, const Json& json, std::string_view name) {
  std::string text = reader.values().text(json, name);
  if (constexpr std::string_view kTorch = "torch."; text.starts_with(kTorch)) text.erase(0, kTorch.size());
  for (const auto& [theirs, ours] :
       {std::pair("float32", "fp32"), std::pair("float", "fp32"), std::pair("float16", "fp16"),
        std::pair("half", "fp16"), std::pair("bfloat16", "bf16")})
    if (text == theirs) text = ours;
  if (text != "fp32" && text != "fp16" && text != "bf16")
    reader.values().refuse(name, json, "is not a type for sums", "use \"fp32\", \"fp16\" or \"bf16\"");
  return text;
}

void read_types(DeepSpeedReader& reader) {
  read_precision(reader);
  constexpr std::string_view kTypes = "data_types.", kSum = "data_types.grad_accum_dtype";
  const Json* const section = reader.section(reader.json(), "data_types");
  if (section == nullptr) return;
  if (const Json* const sum = reader.take(*section, kTypes, "grad_accum_dtype", "train.reduce_dtype")) {
    const std::string type = type_named(reader, *sum, kSum), trained = kept_dtype(reader);
    if (type == trained)
      reader.keep("train.reduce_dtype", Value(std::string("same")), kSum);
    else if (type == "fp32")
      reader.keep("train.reduce_dtype", Value(type), kSum);
    else
      reader.drop(kSum, fmt::format("a sum of {} gradients is rounded to {}, or stays fp32", trained, trained));
  }
  reader.drop_rest(*section, kTypes);
}

void read_betas(DeepSpeedReader& reader, const Json& params, std::string_view type) {
  const std::string name = "optimizer.params.betas";
  if (const Json* const betas = reader.take(params, kTheirOptimizer, "betas", "optimizer.betas")) {
    if (!betas->is_array() || betas->size() != 2)
      reader.values().refuse(name, *betas, "is not a list of two numbers", "write [0.9, 0.999]");
    return reader.keep("optimizer.betas",
                       Value(Value::Array{Value(reader.values().number((*betas)[0], name)),
                                          Value(reader.values().number((*betas)[1], name))}),
                       name);
  }
  const auto usual = [&](int moment) { return Value(deepspeed_default(fmt::format("{}.beta{}", type, moment))); };
  reader.keep("optimizer.betas", Value(Value::Array{usual(1), usual(2)}), kDefault);
}

// DeepSpeed has a key for each end of the range.
void read_trust_ratio(DeepSpeedReader& reader, const Json& params) {
  const auto end = [&](const char* key) {
    const Json* const given = reader.take(params, kTheirOptimizer, key, "optimizer.trust_ratio");
    return Value(given == nullptr ? deepspeed_default(fmt::format("lamb.{}", key))
                                  : reader.values().number(*given, fmt::format("{}{}", kTheirOptimizer, key)));
  };
  reader.keep("optimizer.trust_ratio", Value(Value::Array{end("min_coeff"), end("max_coeff")}),
              params.contains("min_coeff") || params.contains("max_coeff") ? "optimizer.params.max_coeff" : kDefault);
}

// DeepSpeed's "Adam" is AdamW unless adam_w_mode is false; its "AdamW" is always AdamW.
std::string read_adam(DeepSpeedReader& reader, const Json& params, const std::string& name) {
  constexpr std::string_view kMode = "optimizer.params.adam_w_mode";
  const Json* const decoupled = reader.take(params, kTheirOptimizer, "adam_w_mode", "optimizer.name");
  if (decoupled == nullptr || reader.values().flag(*decoupled, kMode)) return "adamw";
  if (name == "adamw") reader.drop(kMode, "AdamW always has decoupled decay, also in DeepSpeed");
  return name;
}

// Returns the table of an optimizer's defaults: DeepSpeed's own or, with torch_adam, that of torch.optim.
std::string table_of(DeepSpeedReader& reader, const Json& params, const std::string& rule) {
  if (rule != "adamw" && rule != "adam") return rule;
  const Json* const torchs = params.contains("torch_adam") ? &params.at("torch_adam") : nullptr;
  const bool by_torch =
      torchs != nullptr && !torchs->is_null() && reader.values().flag(*torchs, "optimizer.params.torch_adam");
  return by_torch ? "torch_" + rule : "adam";
}

void keep_number_or_default(DeepSpeedReader& reader, const Json& params, std::string_view key, std::string_view ours,
                            std::string_view table, std::string_view remark = "") {
  if (reader.keep_number(params, kTheirOptimizer, key, ours, remark)) return;
  reader.keep(ours, Value(deepspeed_default(fmt::format("{}.{}", table, key))), fmt::format("{}{}", kDefault, remark));
}

// Reads Muon, which updates matrices; AdamW updates the other parameters. Both have one rate, or each has its own.
void read_muon(DeepSpeedReader& reader, const Json& params) {
  if (reader.keep_number(params, kTheirOptimizer, "lr", "optimizer.lr")) {
    reader.keep_number(params, kTheirOptimizer, "lr", "optimizer.adamw_lr");
  } else {
    reader.keep("optimizer.lr", Value(deepspeed_default("muon.lr")), kDefault);
    reader.keep("optimizer.adamw_lr", Value(deepspeed_default("muon.adam_lr")), kDefault);
  }
  reader.keep_number(params, kTheirOptimizer, "muon_lr", "optimizer.lr");
  reader.keep_number(params, kTheirOptimizer, "adam_lr", "optimizer.adamw_lr");
  const Json* const method = reader.take(params, kTheirOptimizer, "ns_method", "[optimizer]");
  if (method == nullptr || reader.values().text(*method, "optimizer.params.ns_method") != "standard")
    reader.drop("optimizer.params.ns_method",
                "the iteration is the standard one, in fp32; DeepSpeed's default is gram");
  const Json* const by_head = reader.take(params, kTheirOptimizer, "per_head_muon", "[optimizer]");
  if (by_head != nullptr && reader.values().flag(*by_head, "optimizer.params.per_head_muon"))
    reader.drop("optimizer.params.per_head_muon", "each matrix has one direction, whatever heads it has");
}

// The update rules that DeepSpeed also has, by our names.
constexpr std::array<std::string_view, 6> kTheirRules{"adamw", "adam", "sgd", "lamb", "lion", "muon"};

// Assumes the optimizer that the Trainer uses if its file has no optimizer.
void assume_optimizer(DeepSpeedReader& reader) {
  constexpr std::string_view kAbsent = "no optimizer in the file";
  reader.assume("optimizer.name", Value(std::string("adamw")), kAbsent, "optim");
  for (const auto& [key, ours] :
       {std::pair("lr", "optimizer.lr"), std::pair("betas", "optimizer.betas"), std::pair("eps", "optimizer.eps"),
        std::pair("weight_decay", "optimizer.weight_decay")})
    reader.assume_default(fmt::format("{}{}", kTheirOptimizer, key), ours);
}

void read_optimizer(DeepSpeedReader& reader) {
  const Json* const section = reader.section(reader.json(), "optimizer");
  if (section == nullptr) {
    if (reader.is_for_the_trainer()) return assume_optimizer(reader);
    return reader.drop("optimizer", "not in the file: set [optimizer] as the program has it");
  }
  const Json* const type = reader.take(*section, "optimizer.", "type", "optimizer.name");
  const Json& params = params_of(reader, *section, "optimizer.");
  if (type == nullptr)
    return reader.drop("optimizer.type",
                       "without it DeepSpeed makes no optimizer: set [optimizer] as the program has it");
  const std::string given = reader.values().text(*type, "optimizer.type");
  std::string name = given;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (const auto norm = params.find("max_grad_norm"); norm != params.end())
    reader.values().refuse("optimizer.params.max_grad_norm", *norm, "DeepSpeed 0.19.8 also refuses it",
                           "use gradient_clipping");
  if (std::ranges::find(kTheirRules, name) == kTheirRules.end())
    return reader.drop("optimizer.type",
                       fmt::format("\"{}\" is not one of {}: set [optimizer]", shown(given), all_of(kTheirRules)));
  if (name == "adam" || name == "adamw") name = read_adam(reader, params, name);
  reader.keep("optimizer.name", Value(name), name == "adam" ? "optimizer.params.adam_w_mode" : "optimizer.type");
  if (name == "lamb")
    reader.drop("optimizer.type",
                "LAMB's direction here is corrected before the trust ratio, and DeepSpeed's step after it. The first "
                "steps here are up to 6.5 times as long (docs/migration.md)");
  const RuleRow& rule = rule_row(name);
  const std::string table = table_of(reader, params, name);
  const bool of_matrices = rule.needs == RuleNeeds::kMatrices;
  of_matrices ? read_muon(reader, params) : keep_number_or_default(reader, params, "lr", "optimizer.lr", table);
  keep_number_or_default(reader, params, "weight_decay", "optimizer.weight_decay", table,
                         "; here of tensors with two or more dimensions");
  if (rule.reads("optimizer.momentum")) keep_number_or_default(reader, params, "momentum", "optimizer.momentum", table);
  if (rule.reads("optimizer.betas")) read_betas(reader, params, table);
  if (rule.reads("optimizer.trust_ratio")) read_trust_ratio(reader, params);
  if (rule.reads("optimizer.eps")) keep_number_or_default(reader, params, "eps", "optimizer.eps", table);
  if (name == "sgd") {
    const Json* const nesterov = reader.take(params, kTheirOptimizer, "nesterov", "optimizer.nesterov");
    if (nesterov != nullptr)
      reader.keep("optimizer.nesterov", Value(reader.values().flag(*nesterov, "optimizer.params.nesterov")),
                  "optimizer.params.nesterov");
  }
  reader.drop_rest(params, kTheirOptimizer);
}

void constant_rate(DeepSpeedReader& reader, std::string_view from) {
  reader.keep("schedule.name", Value(std::string("constant")), from);
  reader.keep("schedule.warmup", Value(std::int64_t{0}), from);
}

void read_warmup(DeepSpeedReader& reader, const Json& params, std::string_view type) {
  reader.keep_whole(params, kScheduler, "warmup_num_steps", "schedule.warmup");
  if (reader.find("schedule.warmup") == nullptr)
    reader.keep("schedule.warmup",
                Value(static_cast<std::int64_t>(deepspeed_default(fmt::format("{}.warmup_num_steps", type)))),
                kDefault);
  const Json* const shape = reader.take(params, kScheduler, "warmup_type", "schedule.warmup");
  const bool linear = shape != nullptr && reader.values().text(*shape, "scheduler.params.warmup_type") == "linear";
  if (!linear && (shape != nullptr || !params.contains("warmup_type")))
    reader.drop("scheduler.params.warmup_type", "the warm-up is linear here; DeepSpeed's default is logarithmic");
  for (const std::string_view key : {"warmup_min_lr", "warmup_min_ratio"}) {
    if (params.contains(std::string(key)) && params.at(std::string(key)) == "auto") {
      reader.take_and_drop(params, kScheduler, key, "the Trainer fills in 0");
      continue;
    }
    const std::string name = fmt::format("{}{}", kScheduler, key);
    const Json* const lowest = reader.take(params, kScheduler, key, "schedule.warmup");
    if (lowest != nullptr && reader.values().number(*lowest, name) != 0)
      reader.drop(name, "the warm-up begins near 0, at lr / (warmup + 1)");
  }
}

// The scheduler's highest rate is the rate of all parameters. With "auto", the Trainer uses one rate for optimizer and
// scheduler.
void read_highest_rate(DeepSpeedReader& reader, const Json& params, bool linear) {
  const bool automatic = params.contains("warmup_max_lr") && params.at("warmup_max_lr") == "auto";
  const Json* const given = reader.take(params, kScheduler, "warmup_max_lr", "optimizer.lr");
  const bool has_rate = reader.find("optimizer.lr") != nullptr;
  if ((given == nullptr && !linear) || (automatic && has_rate)) return;
  const std::string name = given == nullptr ? "DeepSpeed's default of warmup_max_lr" : "scheduler.params.warmup_max_lr";
  const Value rate(given == nullptr ? deepspeed_default("WarmupDecayLR.warmup_max_lr")
                                    : reader.values().number(*given, name));
  reader.keep("optimizer.lr", rate, name);
  if (reader.find("optimizer.adamw_lr") != nullptr) reader.keep("optimizer.adamw_lr", rate, name);
}

// Assumes the Trainer's learning-rate schedule, because its file has no scheduler: linear decay to 0, without a
// warm-up.
void assume_scheduler(DeepSpeedReader& reader) {
  constexpr std::string_view kAbsent = "no scheduler in the file";
  reader.assume("schedule.name", Value(std::string("linear")), kAbsent, "lr_scheduler_type");
  reader.assume("schedule.min_lr", Value(0.0), kAbsent, "lr_scheduler_type");
  reader.assume_default("scheduler.params.warmup_num_steps", "schedule.warmup");
}

// Call it after the optimizer has been read, because it needs the learning rate.
void read_scheduler(DeepSpeedReader& reader) {
  const Json* const section = reader.section(reader.json(), "scheduler");
  if (section == nullptr && reader.is_for_the_trainer()) return assume_scheduler(reader);
  if (section == nullptr) return constant_rate(reader, "no scheduler in the file");
  const Json* const type = reader.take(*section, "scheduler.", "type", "schedule.name");
  const Json& params = params_of(reader, *section, "scheduler.");
  const std::string name = type == nullptr ? "" : reader.values().text(*type, "scheduler.type");
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
  if (!cosine) read_highest_rate(reader, params, linear);
  read_warmup(reader, params, name);
  if (!params.contains("total_num_steps") || params.at("total_num_steps") != "auto")
    reader.keep_whole(params, kScheduler, "total_num_steps", "train.steps");
  else
    reader.take(params, kScheduler, "total_num_steps", "train.steps");  // read_length() sets it
  if (linear) reader.keep("schedule.min_lr", Value(0.0), "scheduler.type");
  if (cosine) {
    const Json* const ratio = reader.take(params, kScheduler, "cos_min_ratio", "schedule.min_lr");
    const double part = ratio == nullptr ? deepspeed_default("WarmupCosineLR.cos_min_ratio")
                                         : reader.values().number(*ratio, "scheduler.params.cos_min_ratio");
    reader.keep("schedule.min_lr", Value(part * kept_rate(reader)), "scheduler.params.cos_min_ratio * lr");
  }
  reader.drop_rest(params, kScheduler);
}

// Assumes the Trainer's number of epochs, because DeepSpeed's file has no such key.
void read_length(DeepSpeedReader& reader) {
  if (reader.is_for_the_trainer() && reader.find("train.steps") == nullptr)
    reader.assume_default("scheduler.params.total_num_steps", "train.epochs");
}

// The tier to which an offload section of DeepSpeed moves a state, and the name of that key. An empty tier: no offload.
struct Offload {
  std::string tier, from;
  double part = deepspeed_default("zero_optimization.offload_optimizer.ratio");
};

// `old`: keys of earlier versions of DeepSpeed. They are true or false, and mean the host.
Offload read_offload(DeepSpeedReader& reader, const Json& zero, std::string_view key,
                     std::initializer_list<std::string_view> old, Value::Array& disks) {
  Offload offload{.from = fmt::format("{}{}", kZero, key)};
  const std::string prefix = offload.from + ".";
  if (const Json* const section = reader.section(zero, key, kZero)) {
    const Json* const device = reader.take(*section, prefix, "device", "[zero]");
    const Json* const folder = reader.take(*section, prefix, "nvme_path", "zero.disk");
    const Json* const ratio = reader.take(*section, prefix, "ratio", "zero.optimizer");
    const std::string name = device == nullptr ? "none" : reader.values().text(*device, prefix + "device");
    if (ratio != nullptr) offload.part = reader.values().number(*ratio, prefix + "ratio");
    if (name == "cpu") {
      offload.tier = "host";
    } else if (name == "nvme") {
      if (folder == nullptr)
        reader.values().refuse(prefix + "device", *device, "no nvme_path is given",
                               "add \"nvme_path\": \"/folder/on/that/disk\"");
      offload.tier = "disk";
      const Value path(reader.values().text(*folder, prefix + "nvme_path"));
      if (std::ranges::find(disks, path) == disks.end()) disks.push_back(path);
    } else if (name != "none") {
      reader.values().refuse(prefix + "device", *device, "is not a device", "use none, cpu or nvme");
    }
    if (!offload.tier.empty()) reader.drop_rest(*section, prefix);
  }
  for (const std::string_view flag : old) {
    const Json* const given = reader.take(zero, kZero, flag, "[zero]");
    const std::string name = fmt::format("{}{}", kZero, flag);
    if (given != nullptr && reader.values().flag(*given, name) && offload.tier.empty())
      offload = {.tier = "host", .from = name};
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
    if (!reader.values().flag(*given, name)) return reader.drop(name, "values cross as they are");
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
  const std::int64_t ranks = reader.values().whole(*given, name);
  if (ranks <= 1) return reader.drop(name, "it is off in DeepSpeed and in zero.cpp");
  if (stage != 3) return reader.drop(name, "below stage 3 nothing is gathered twice");
  reader.keep("zero.secondary_group", Value(ranks), name);
}

std::int64_t default_stage() {
  return static_cast<std::int64_t>(deepspeed_default("zero_optimization.stage"));
}

void read_states(DeepSpeedReader& reader) {
  const Json* const zero = reader.section(reader.json(), "zero_optimization");
  if (zero == nullptr) return reader.keep("zero.stage", Value(default_stage()), kDefault);
  const Json* const given = reader.take(*zero, kZero, "stage", "zero.stage");
  const std::int64_t stage =
      given == nullptr ? default_stage() : reader.values().whole(*given, "zero_optimization.stage");
  reader.keep("zero.stage", Value(stage), given == nullptr ? kDefault : "zero_optimization.stage");
  if (const Json* const shard = reader.take(*zero, kZero, "mics_shard_size", "zero.group")) {
    const std::string name = fmt::format("{}mics_shard_size", kZero);
    const std::int64_t group = reader.values().whole(*shard, name);
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
  // DeepSpeed also moves the gradients to the host.
  if (!optimizer.tier.empty() && stage > 1)
    reader.keep("zero.gradient", fraction("host", optimizer.part), optimizer.from);
  if (!parameter.tier.empty() && stage < 3)
    reader.drop(parameter.from, "parameters leave the device only at stage 3, also in DeepSpeed");
  if (!parameter.tier.empty() && stage == 3) reader.keep("zero.parameter", fraction(parameter.tier, 1), parameter.from);
  if (!disks.empty()) reader.keep("zero.disk", Value(disks), "nvme_path");
  reader.drop_rest(*zero, kZero);
}

}  // namespace

ConvertedConfig convert_deepspeed(std::string_view json, std::string_view path) {
  constexpr std::string_view kRemedy = "name DeepSpeed's JSON file, such as ds_config.json";
  if (json.size() > kMaxConfigBytes)
    throw ConfigError(path, "", fmt::format("{} bytes are too many for a configuration", json.size()), kRemedy);
  Json parsed;
  try {
    parsed = parse_strictly(json, path);
  } catch (const IoError& error) {  // a user wrote this file, so the message must not call it damaged
    std::string_view reason = error.what();
    if (const std::string head = fmt::format("{}: verify: ", path); reason.starts_with(head))
      reason.remove_prefix(head.size());
    throw ConfigError("FILE", path, reason, kRemedy);
  }
  if (!parsed.is_object()) throw ConfigError("FILE", path, "is not a JSON object", kRemedy);
  DeepSpeedReader reader(parsed, path);
  read_batches(reader);
  read_clip(reader);
  read_types(reader);
  read_optimizer(reader);
  read_scheduler(reader);
  read_length(reader);
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
  if (std::ranges::any_of(converted.kept, &KeptKey::assumed))
    out +=
        "#\n# \"auto\" is filled in from the arguments of Hugging Face's Trainer, which are not in that file. Lines "
        "with "
        "TrainingArguments\n# have its defaults: change them if your program sets these arguments.\n";
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
