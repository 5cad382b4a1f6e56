#include "app/config/deepspeed/deepspeed.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/config/load.h"
#include "app/config/options/option.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

ConvertedConfig converted(std::string_view json) {
  return convert_deepspeed(json, "ds_config.json");
}

// The value of our key as TOML; "" if it is not set.
std::string kept(const ConvertedConfig& config, std::string_view name) {
  const auto found = std::ranges::find(config.kept, name, &KeptKey::name);
  return found == config.kept.end() ? "" : to_toml(found->value);
}

// The source of our key's value; "" if it is not set.
std::string source(const ConvertedConfig& config, std::string_view name) {
  const auto found = std::ranges::find(config.kept, name, &KeptKey::name);
  return found == config.kept.end() ? "" : found->from;
}

// The reason why a key of DeepSpeed was left out; "" if it was kept.
std::string dropped(const ConvertedConfig& config, std::string_view name) {
  const auto found = std::ranges::find(config.dropped, name, &DroppedKey::name);
  return found == config.dropped.end() ? "" : found->reason;
}

// Reads the written text as `zero train` does, with some data.
Config loaded(const ConvertedConfig& config) {
  return load_config({.text = to_toml(config, "ds_config.json"),
                      .text_name = "zero.toml",
                      .overrides = {{.name = "data.path", .value = Value(std::string("x")), .text = "x"}},
                      .check_files = false})
      .config;
}

std::string refusal(std::string_view json) {
  return message_of<ConfigError>([&] { converted(json); });
}

// Stage 2 with the optimizer on the host, as in published files of trainers for language models.
constexpr std::string_view kStage2 = R"({
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 8,
  "gradient_clipping": 0.5,
  "steps_per_print": 2e3,
  "optimizer": {"type": "AdamW",
    "params": {"lr": 3e-5, "betas": [0.8, 0.999], "eps": 1e-8, "weight_decay": 3e-7, "torch_adam": true}},
  "scheduler": {"type": "WarmupDecayLR",
    "params": {"warmup_min_lr": 0, "warmup_max_lr": 5e-5, "warmup_num_steps": 500, "total_num_steps": 1e5,
               "warmup_type": "linear"}},
  "fp16": {"enabled": false},
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 2,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "allgather_partitions": true, "allgather_bucket_size": 2e8,
    "overlap_comm": true, "reduce_scatter": true, "reduce_bucket_size": 2e8, "contiguous_gradients": true},
  "wall_clock_breakdown": false
})";

TEST(DeepSpeed, ShardGroupsAreCarriedOver) {
  const ConvertedConfig config = converted(R"({"zero_optimization": {"stage": 3, "mics_shard_size": 4}})");
  EXPECT_EQ(kept(config, "zero.group"), "4");
  EXPECT_EQ(loaded(config).engine.group, 4);
  const ConvertedConfig off = converted(R"({"zero_optimization": {"stage": 3, "mics_shard_size": -1}})");
  EXPECT_EQ(kept(off, "zero.group"), "");
  EXPECT_EQ(dropped(off, "zero_optimization.mics_shard_size"), "zero.group is auto then");
}

TEST(DeepSpeed, SecondaryPartitionsAreSecondaryGroups) {
  constexpr const char* kKey = "zero_optimization.zero_hpz_partition_size";
  const ConvertedConfig config =
      converted(R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4, "zero_quantized_weights": true}})");
  EXPECT_EQ(loaded(config).engine.secondary_group, 4);
  EXPECT_EQ(loaded(config).engine.wire.gather, WireCodec::kInt8);
  const ConvertedConfig off = converted(R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 1}})");
  EXPECT_TRUE(says(dropped(off, kKey), "it is off in DeepSpeed"));
  const ConvertedConfig below = converted(R"({"zero_optimization": {"stage": 2, "zero_hpz_partition_size": 4}})");
  EXPECT_TRUE(says(dropped(below, kKey), "below stage 3"));
}

TEST(DeepSpeed, QuantizedWeightsAndGradientsAreCodecs) {
  const std::string keys = R"("zero_quantized_weights": true, "zero_quantized_gradients": true}})";
  const ConvertedConfig config = converted(R"({"zero_optimization": {"stage": 3, )" + keys);
  EXPECT_EQ(loaded(config).engine.wire.gather, WireCodec::kInt8);
  EXPECT_EQ(loaded(config).engine.wire.reduce, WireCodec::kInt4);
  const ConvertedConfig whole = converted(R"({"zero_optimization": {"stage": 2, )" + keys);
  EXPECT_EQ(loaded(whole).engine.wire.gather, WireCodec::kNone);
  EXPECT_EQ(loaded(whole).engine.wire.reduce, WireCodec::kInt4);
  EXPECT_EQ(dropped(whole, "zero_optimization.zero_quantized_weights"), "below stage 3 none are gathered");
  const ConvertedConfig off = converted(R"({"zero_optimization": {"stage": 3, "zero_quantized_gradients": false}})");
  EXPECT_EQ(loaded(off).engine.wire.reduce, WireCodec::kNone);
  EXPECT_EQ(dropped(off, "zero_optimization.zero_quantized_gradients"), "values cross as they are");
}

TEST(DeepSpeed, ConvertsAStageWithHostOptimizer) {
  const ConvertedConfig config = converted(kStage2);
  EXPECT_EQ(kept(config, "train.global_batch"), "64");
  EXPECT_EQ(kept(config, "train.batch"), "4");
  EXPECT_EQ(kept(config, "train.accumulate"), "8");
  EXPECT_EQ(kept(config, "train.clip"), "0.5");
  EXPECT_EQ(kept(config, "train.log_every"), "2000");
  EXPECT_EQ(kept(config, "train.steps"), "100000");
  EXPECT_EQ(kept(config, "train.dtype"), "\"bf16\"");
  EXPECT_EQ(kept(config, "optimizer.name"), "\"adamw\"");
  EXPECT_EQ(kept(config, "optimizer.lr"), "5e-05") << "the scheduler's highest rate wins over the optimizer's";
  EXPECT_EQ(kept(config, "optimizer.betas"), "[0.8, 0.999]");
  EXPECT_EQ(kept(config, "schedule.name"), "\"linear\"");
  EXPECT_EQ(kept(config, "schedule.warmup"), "500");
  EXPECT_EQ(kept(config, "schedule.min_lr"), "0.0");
  EXPECT_EQ(kept(config, "zero.stage"), "2");
  EXPECT_EQ(kept(config, "zero.optimizer"), "{host = 1.0}");
  EXPECT_EQ(kept(config, "zero.gradient"), "{host = 1.0}") << "DeepSpeed also offloads gradients";
  EXPECT_EQ(kept(config, "zero.parameter"), "");
}

TEST(DeepSpeed, WhatIsWrittenLoads) {
  const Config config = loaded(converted(kStage2));
  EXPECT_EQ(config.engine.stage, 2);
  EXPECT_EQ(config.engine.offload.fractions.optimizer.host, 1);
  EXPECT_EQ(config.optimizer.eps, 1e-8);
  EXPECT_EQ(config.schedule.kind, LrKind::kLinear);
}

// A key with a value may be off.
TEST(DeepSpeed, EachKeyIsKeptOrDropped) {
  const ConvertedConfig config = converted(kStage2);
  EXPECT_NE(dropped(config, "zero_optimization.overlap_comm"), "");
  EXPECT_NE(dropped(config, "zero_optimization.allgather_bucket_size"), "");
  EXPECT_NE(dropped(config, "zero_optimization.offload_optimizer.pin_memory"), "");
  EXPECT_NE(dropped(config, "optimizer.params.torch_adam"), "");
  EXPECT_EQ(dropped(config, "wall_clock_breakdown"), "") << "it is off";
  EXPECT_EQ(dropped(config, "fp16"), "") << "it is off";
  EXPECT_EQ(config.dropped.size(), 8u);
}

// Stage 3 with everything on NVMe. All values that a trainer knows are left to it.
constexpr std::string_view kInfinity = R"({
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "bf16": {"enabled": "auto"},
  "fp16": {"enabled": "auto", "loss_scale": 0, "initial_scale_power": 16},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupLR",
    "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_count": 4, "fast_init": false},
    "offload_param": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_size": 1e8, "max_in_cpu": 1e9},
    "sub_group_size": 1e9, "stage3_max_live_parameters": 1e9, "stage3_prefetch_bucket_size": "auto",
    "stage3_gather_16bit_weights_on_model_save": true},
  "aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 1, "single_submit": false, "overlap_events": true}
})";

TEST(DeepSpeed, StatesOnNvmeLieOnDisk) {
  const ConvertedConfig config = converted(kInfinity);
  EXPECT_EQ(kept(config, "zero.stage"), "3");
  EXPECT_EQ(kept(config, "zero.optimizer"), "{disk = 1.0}");
  EXPECT_EQ(kept(config, "zero.parameter"), "{disk = 1.0}");
  EXPECT_EQ(kept(config, "zero.gradient"), "{host = 1.0}");
  EXPECT_EQ(kept(config, "zero.disk"), "[\"/local_nvme\"]") << "one folder, though two sections name it";
  EXPECT_CONTAINS(dropped(config, "zero_optimization.offload_param.max_in_cpu"), "fraction");
  EXPECT_EQ(loaded(config).engine.offload.disk, std::vector<std::string>{"/local_nvme"});
}

TEST(DeepSpeed, AutoIsTheTrainersDefault) {
  const ConvertedConfig config = converted(kInfinity);
  EXPECT_EQ(kept(config, "optimizer.lr"), "5e-05");
  EXPECT_EQ(source(config, "optimizer.lr"), "optimizer.params.lr: the default of TrainingArguments' learning_rate");
  EXPECT_EQ(kept(config, "optimizer.betas"), "[0.9, 0.999]");
  EXPECT_EQ(kept(config, "optimizer.eps"), "1e-08");
  EXPECT_EQ(kept(config, "optimizer.weight_decay"), "0.0");
  EXPECT_EQ(kept(config, "train.clip"), "1.0");
  EXPECT_EQ(kept(config, "train.batch"), "8");
  EXPECT_EQ(kept(config, "train.accumulate"), "1");
  EXPECT_EQ(kept(config, "train.global_batch"), "") << "it follows from the other two";
  EXPECT_EQ(kept(config, "train.dtype"), "\"fp32\"");
  EXPECT_EQ(kept(config, "train.epochs"), "3");
  EXPECT_EQ(kept(config, "schedule.warmup"), "0");
  EXPECT_EQ(loaded(config).optimizer.lr, 5e-5);
  const auto assumed = std::ranges::count_if(config.kept, &KeptKey::assumed);
  EXPECT_EQ(assumed, 10);
  EXPECT_CONTAINS(to_toml(config, "ds_config.json"), "arguments of Hugging Face's Trainer, which are not in that file");
  EXPECT_FALSE(says(to_toml(converted(kStage2), "ds_config.json"), "Hugging Face"));
}

// In this case the Trainer makes optimizer and schedule itself. A DeepSpeed file without "auto" leaves them to any
// program.
TEST(DeepSpeed, TrainersFileNeedsNoOptimizer) {
  const ConvertedConfig config = converted(
      R"({"train_micro_batch_size_per_gpu": 2, "gradient_clipping": "auto", "zero_optimization": {"stage": 2}})");
  EXPECT_EQ(kept(config, "optimizer.lr"), "5e-05");
  EXPECT_EQ(kept(config, "optimizer.betas"), "[0.9, 0.999]");
  EXPECT_EQ(kept(config, "optimizer.weight_decay"), "0.0");
  EXPECT_EQ(kept(config, "schedule.name"), "\"linear\"");
  EXPECT_EQ(kept(config, "schedule.warmup"), "0");
  EXPECT_EQ(kept(config, "schedule.min_lr"), "0.0");
  EXPECT_EQ(kept(config, "train.epochs"), "3");
  EXPECT_EQ(loaded(config).optimizer.lr, 5e-5);
}

// DeepSpeed ignores "auto" in these sections.
TEST(DeepSpeed, AutoSectionHasItsDefault) {
  const ConvertedConfig config =
      converted(R"({"train_batch_size": 8, "zero_optimization": {"stage": "auto"}, "optimizer": {"type": "Adam"}})");
  EXPECT_EQ(kept(config, "zero.stage"), "0");
  EXPECT_EQ(kept(config, "optimizer.lr"), "0.001");
}

TEST(DeepSpeed, BatchFollowsLikeTheTrainers) {
  const ConvertedConfig config = converted(
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto"})");
  EXPECT_EQ(kept(config, "train.accumulate"), "");
  EXPECT_CONTAINS(dropped(config, "gradient_accumulation_steps"), "follows");
  EXPECT_CONTAINS(dropped(converted("{}"), "train_micro_batch_size_per_gpu"), "set train.batch");
}

TEST(DeepSpeed, Fp16HasItsLossScale) {
  const ConvertedConfig dynamic = converted(R"({"fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16,
      "loss_scale_window": 1000, "hysteresis": 2, "min_loss_scale": 1, "auto_cast": true}})");
  EXPECT_EQ(kept(dynamic, "train.dtype"), "\"fp16\"");
  EXPECT_EQ(kept(dynamic, "train.loss_scale"), "\"dynamic\"");
  EXPECT_EQ(dropped(dynamic, "fp16.initial_scale_power"), "") << "as ours";
  EXPECT_EQ(dropped(dynamic, "fp16.min_loss_scale"), "") << "as ours";
  EXPECT_CONTAINS(dropped(dynamic, "fp16.loss_scale_window"), "2,000");
  EXPECT_CONTAINS(dropped(dynamic, "fp16.hysteresis"), "each overflow");
  EXPECT_CONTAINS(dropped(dynamic, "fp16.auto_cast"), "inputs");
  const ConvertedConfig fixed = converted(R"({"fp16": {"enabled": true, "loss_scale": 128}})");
  EXPECT_EQ(kept(fixed, "train.loss_scale"), "128.0");
  EXPECT_EQ(loaded(fixed).engine.loss_scale->value, 128);
  EXPECT_EQ(dropped(fixed, "fp16.loss_scale_window"), "") << "a fixed scale has no window";
}

TEST(DeepSpeed, DefaultLossScaleDifferenceIsReported) {
  const ConvertedConfig silent = converted(R"({"fp16": {"enabled": true}})");
  EXPECT_EQ(kept(silent, "train.loss_scale"), "\"dynamic\"");
  EXPECT_CONTAINS(dropped(silent, "fp16.loss_scale_window"), "DeepSpeed's default is 1,000");
  EXPECT_CONTAINS(dropped(silent, "fp16.hysteresis"), "DeepSpeed's default is 2");
  EXPECT_EQ(dropped(silent, "fp16.initial_scale_power"), "") << "also 16 there";
  EXPECT_EQ(dropped(silent, "fp16.min_loss_scale"), "") << "also 1 there";
  const ConvertedConfig ours =
      converted(R"({"fp16": {"enabled": true, "loss_scale_window": 2000, "hysteresis": "auto"}})");
  EXPECT_EQ(dropped(ours, "fp16.loss_scale_window"), "") << "as ours";
  EXPECT_CONTAINS(dropped(ours, "fp16.hysteresis"), "DeepSpeed's default is 2");  // also with "auto"
}

TEST(DeepSpeed, ClipsAtOneByDefault) {
  const ConvertedConfig silent = converted(R"({"train_batch_size": 8, "optimizer": {"type": "Adam"}})");
  EXPECT_EQ(kept(silent, "train.clip"), "1.0");
  EXPECT_CONTAINS(to_toml(silent, "ds_config.json"), "# DeepSpeed's default\n");
  EXPECT_EQ(loaded(silent).engine.clip, 1);
  EXPECT_EQ(kept(converted("{}"), "train.clip"), "1.0");
  EXPECT_EQ(kept(converted(R"({"gradient_clipping": null})"), "train.clip"), "1.0");
  EXPECT_EQ(kept(converted(R"({"gradient_clipping": 0})"), "train.clip"), "0.0");
  EXPECT_EQ(kept(converted(R"({"gradient_clipping": 0.5})"), "train.clip"), "0.5");
  const ConvertedConfig by_program = converted(R"({"optimizer": {"params": {"max_grad_norm": 0.25}}})");
  EXPECT_EQ(kept(by_program, "train.clip"), "1.0") << "without a type DeepSpeed reads no parameter of the optimizer";
}

// DeepSpeed raises ValueError for the key, whatever its value is.
TEST(DeepSpeed, NormOfTheOptimizerIsRefused) {
  for (const std::string_view type : {"Adam", "Muon", "OneBitAdam"})
    for (const std::string_view value : {"0.25", "0", "null", "\"auto\""})
      EXPECT_CONTAINS(
          refusal(fmt::format(R"({{"optimizer": {{"type": "{}", "params": {{"max_grad_norm": {}}}}}}})", type, value)),
          fmt::format("optimizer.params.max_grad_norm = {}: DeepSpeed 0.19.8 also refuses it\n  use gradient_clipping",
                      value));
}

TEST(DeepSpeed, TorchAdamDecaysByDefault) {
  const auto decay = [](std::string_view type, std::string_view more) {
    return kept(converted(fmt::format(R"({{"optimizer": {{"type": "{}", "params": {{{}}}}}}})", type, more)),
                "optimizer.weight_decay");
  };
  EXPECT_EQ(decay("AdamW", R"("torch_adam": true)"), "0.01");
  EXPECT_EQ(decay("Adam", R"("torch_adam": true)"), "0.01") << "this is also torch's AdamW";
  EXPECT_EQ(decay("Adam", R"("torch_adam": true, "adam_w_mode": false)"), "0.0");
  EXPECT_EQ(decay("AdamW", R"("torch_adam": false)"), "0.0");
  EXPECT_EQ(decay("AdamW", R"("torch_adam": true, "weight_decay": 0.3)"), "0.3");
}

TEST(DeepSpeed, TwoTypesAreRefused) {
  EXPECT_CONTAINS(refusal(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})"),
                  "fp16.enabled = true: bf16.enabled is also true, and DeepSpeed refuses both");
  const ConvertedConfig one = converted(R"({"bf16": {"enabled": true}, "fp16": {"enabled": "auto"}})");
  EXPECT_EQ(kept(one, "train.dtype"), "\"bf16\"");
  EXPECT_EQ(source(one, "train.dtype"), "bf16.enabled");
  const ConvertedConfig older = converted(R"({"bf16": {"enabled": false}, "bfloat16": {"enabled": true}})");
  EXPECT_EQ(kept(older, "train.dtype"), "") << "DeepSpeed reads the older name only without the newer one";
}

TEST(DeepSpeed, TypeOfSumsIsReduceDtype) {
  const auto with = [](std::string_view more) {
    return converted(fmt::format(R"({{"train_batch_size": 8, {}}})", more));
  };
  const ConvertedConfig fp32 =
      with(R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "torch.float32"})");
  EXPECT_EQ(loaded(fp32).engine.reduce_dtype, DType::kFloat32);
  EXPECT_EQ(dropped(fp32, "data_types"), "");
  const ConvertedConfig same = with(R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"})");
  EXPECT_EQ(loaded(same).engine.reduce_dtype, std::nullopt);
  const ConvertedConfig narrow = with(R"("data_types": {"grad_accum_dtype": "bf16"})");
  EXPECT_EQ(kept(narrow, "train.reduce_dtype"), "");
  EXPECT_CONTAINS(dropped(narrow, "data_types.grad_accum_dtype"), "stays fp32");
  EXPECT_CONTAINS(refusal(R"({"data_types": {"grad_accum_dtype": "fp8"}})"), "is not a type for sums");
}

// The default of each key is true.
TEST(DeepSpeed, ListsFalseThatChangesSteps) {
  const ConvertedConfig config = converted(
      R"({"managed_gradient_accumulation": false, "bf16": {"enabled": true, "check_grad_overflow": false},
          "optimizer": {"type": "Adam", "params": {"bias_correction": false}}, "dump_state": false})");
  EXPECT_CONTAINS(dropped(config, "optimizer.params.bias_correction"), "always corrected");
  EXPECT_CONTAINS(dropped(config, "bf16.check_grad_overflow"), "health.non_finite");
  EXPECT_NE(dropped(config, "managed_gradient_accumulation"), "");
  EXPECT_EQ(dropped(config, "dump_state"), "");
}

TEST(DeepSpeed, AdamMeansAdamWByDefault) {
  const auto with = [](std::string_view type, std::string_view mode) {
    return converted(
        fmt::format(R"({{"optimizer": {{"type": "{}", "params": {{"weight_decay": 0.1{}}}}}}})", type, mode));
  };
  constexpr std::string_view kCoupled = R"(, "adam_w_mode": false)", kDecoupled = R"(, "adam_w_mode": true)";
  EXPECT_EQ(loaded(with("Adam", "")).optimizer.name, "adamw");
  EXPECT_EQ(loaded(with("Adam", kDecoupled)).optimizer.name, "adamw");
  const ConvertedConfig adam = with("Adam", kCoupled);
  EXPECT_EQ(loaded(adam).optimizer.name, "adam");
  EXPECT_EQ(loaded(adam).optimizer.weight_decay, 0.1);
  EXPECT_EQ(dropped(adam, "optimizer.params.adam_w_mode"), "");
  const ConvertedConfig adamw = with("AdamW", kCoupled);
  EXPECT_EQ(loaded(adamw).optimizer.name, "adamw") << "DeepSpeed's AdamW always decouples weight decay";
  EXPECT_CONTAINS(dropped(adamw, "optimizer.params.adam_w_mode"), "also in DeepSpeed");
  EXPECT_CONTAINS(dropped(with("Adam", R"(, "adam_w_mode": "auto")"), "optimizer.params.adam_w_mode"),
                  "set optimizer.name");
}

TEST(DeepSpeed, WritesDownDeepSpeedsDefaults) {
  const ConvertedConfig config = converted(R"({"train_batch_size": 8, "optimizer": {"type": "Adam"}})");
  EXPECT_EQ(kept(config, "zero.stage"), "0");
  EXPECT_EQ(kept(config, "optimizer.betas"), "[0.9, 0.999]");
  EXPECT_EQ(kept(config, "optimizer.weight_decay"), "0.0");
  EXPECT_EQ(kept(config, "schedule.name"), "\"constant\"");
  EXPECT_EQ(kept(config, "schedule.warmup"), "0");
  EXPECT_EQ(loaded(config).engine.stage, 0);
}

// A fraction of the highest learning rate.
TEST(DeepSpeed, CosineEndsAtAFraction) {
  const ConvertedConfig config = converted(R"({
    "optimizer": {"type": "SGD", "params": {"lr": 0.5, "momentum": 0.9, "nesterov": true}},
    "scheduler": {"type": "WarmupCosineLR",
      "params": {"total_num_steps": 1000, "warmup_num_steps": 10, "cos_min_ratio": 0.1, "warmup_type": "linear"}}})");
  EXPECT_EQ(kept(config, "optimizer.name"), "\"sgd\"");
  EXPECT_EQ(kept(config, "optimizer.momentum"), "0.9");
  EXPECT_EQ(kept(config, "schedule.name"), "\"cosine\"");
  EXPECT_EQ(kept(config, "schedule.min_lr"), "0.05");
  EXPECT_EQ(kept(config, "optimizer.nesterov"), "true");
  EXPECT_EQ(loaded(config).schedule.min_lr, 0.05);
}

TEST(DeepSpeed, DecayScheduleHasItsOwnRate) {
  const auto rate = [](std::string_view type, std::string_view more) {
    return kept(converted(fmt::format(R"({{"optimizer": {{"type": "Adam", "params": {{"lr": 0.5}}}},
                                          "scheduler": {{"type": "{}", "params": {{"warmup_num_steps": 5{}}}}}}})",
                                      type, more)),
                "optimizer.lr");
  };
  EXPECT_EQ(rate("WarmupDecayLR", ""), "0.001") << "DeepSpeed's default, whatever the optimizer's rate is";
  EXPECT_EQ(rate("WarmupDecayLR", R"(, "warmup_max_lr": 0.25)"), "0.25");
  EXPECT_EQ(rate("WarmupLR", ""), "0.5");
  EXPECT_EQ(rate("WarmupDecayLR", R"(, "warmup_max_lr": "auto")"), "0.5") << "the Trainer wants one rate in both";
}

TEST(DeepSpeed, ReportsANonLinearWarmup) {
  const ConvertedConfig config =
      converted(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_min_lr": 1e-6}}})");
  EXPECT_CONTAINS(dropped(config, "scheduler.params.warmup_type"), "logarithmic");
  EXPECT_CONTAINS(dropped(config, "scheduler.params.warmup_min_lr"), "near 0");
}

TEST(DeepSpeed, ReportsUnknownOptimizersAndSchedules) {
  const ConvertedConfig config =
      converted(R"({"optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-3}}, "scheduler": {"type": "OneCycle"}})");
  EXPECT_CONTAINS(dropped(config, "optimizer.type"),
                  "\"OneBitAdam\" is not one of adamw, adam, sgd, lamb, lion and muon");
  EXPECT_CONTAINS(dropped(config, "scheduler.type"), "\"OneCycle\"");
  EXPECT_EQ(kept(config, "optimizer.name"), "");
}

TEST(DeepSpeed, LambAndLionAreOurs) {
  const ConvertedConfig lamb =
      converted(R"({"optimizer": {"type": "Lamb", "params": {"lr": 1e-3, "max_coeff": 5, "betas": [0.8, 0.9]}}})");
  EXPECT_EQ(kept(lamb, "optimizer.name"), "\"lamb\"");
  EXPECT_EQ(kept(lamb, "optimizer.trust_ratio"), "[0.01, 5.0]");
  EXPECT_EQ(kept(lamb, "optimizer.betas"), "[0.8, 0.9]");
  EXPECT_CONTAINS(dropped(lamb, "optimizer.type"), "up to 6.5 times as long");
  const ConvertedConfig lion = converted(R"({"optimizer": {"type": "Lion", "params": {"lr": 1e-4}}})");
  EXPECT_EQ(kept(lion, "optimizer.name"), "\"lion\"");
  EXPECT_EQ(kept(lion, "optimizer.betas"), "[0.9, 0.999]");
  EXPECT_EQ(kept(lion, "optimizer.eps"), "");
}

// One rate for matrices and one for all other parameters.
TEST(DeepSpeed, MuonHasTwoLearningRates) {
  const ConvertedConfig both = converted(R"({"optimizer": {"type": "Muon", "params": {"lr": 1e-3, "momentum": 0.9}}})");
  EXPECT_EQ(kept(both, "optimizer.name"), "\"muon\"");
  EXPECT_EQ(kept(both, "optimizer.lr"), "0.001");
  EXPECT_EQ(kept(both, "optimizer.adamw_lr"), "0.001");
  EXPECT_EQ(kept(both, "optimizer.momentum"), "0.9");
  EXPECT_EQ(kept(both, "optimizer.betas"), "[0.9, 0.95]");
  EXPECT_EQ(kept(both, "optimizer.eps"), "1e-10");
  EXPECT_CONTAINS(dropped(both, "optimizer.params.ns_method"), "DeepSpeed's default is gram");
  const ConvertedConfig silent = converted(R"({"optimizer": {"type": "Muon"}})");
  EXPECT_EQ(kept(silent, "optimizer.lr"), "0.02");
  EXPECT_EQ(kept(silent, "optimizer.adamw_lr"), "0.0003");
  EXPECT_EQ(kept(silent, "optimizer.momentum"), "0.95");
  const ConvertedConfig apart = converted(
      R"({"optimizer": {"type": "Muon", "params": {"lr": 1e-3, "muon_lr": 0.02, "adam_lr": 3e-4, "ns_method": "gram",
          "per_head_muon": true}}, "zero_optimization": {"stage": 3, "save_muon_momentum_buffer_in_memory": true}})");
  EXPECT_EQ(loaded(apart).optimizer.lr, 0.02);
  EXPECT_EQ(loaded(apart).optimizer.adamw_lr, 3e-4);
  EXPECT_CONTAINS(dropped(apart, "optimizer.params.ns_method"), "standard");
  EXPECT_CONTAINS(dropped(apart, "optimizer.params.per_head_muon"), "one direction");
  EXPECT_CONTAINS(dropped(apart, "zero_optimization.save_muon_momentum_buffer_in_memory"), "zero.optimizer");
}

TEST(DeepSpeed, OldKeysOfOffloadingCount) {
  const ConvertedConfig config =
      converted(R"({"zero_optimization": {"stage": 3, "cpu_offload": true, "cpu_offload_params": true}})");
  EXPECT_EQ(kept(config, "zero.optimizer"), "{host = 1.0}");
  EXPECT_EQ(kept(config, "zero.parameter"), "{host = 1.0}");
}

TEST(DeepSpeed, ReportsOffloadThatStagesLack) {
  const ConvertedConfig config = converted(R"({"zero_optimization": {"stage": 1,
    "offload_optimizer": {"device": "cpu", "ratio": 0.5}, "offload_param": {"device": "cpu"}}})");
  EXPECT_EQ(kept(config, "zero.optimizer"), "{host = 0.5}");
  EXPECT_EQ(kept(config, "zero.gradient"), "") << "gradients are whole at stage 1";
  EXPECT_EQ(kept(config, "zero.parameter"), "");
  EXPECT_CONTAINS(dropped(config, "zero_optimization.offload_param"), "stage 3");
  const ConvertedConfig whole =
      converted(R"({"zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}})");
  EXPECT_EQ(kept(whole, "zero.optimizer"), "");
  EXPECT_EQ(dropped(whole, "zero_optimization.offload_optimizer"),
            "DeepSpeed offloads nothing at stage 0; here zero.optimizer = {host = 1} works at any stage");
}

// Models without blocks have no activation checkpoints.
TEST(DeepSpeed, CheckpointsActivationsOnlyWithBlocks) {
  EXPECT_CONTAINS(dropped(converted(R"({"activation_checkpointing": {"partition_activations": true}})"),
                          "activation_checkpointing"),
                  "gpt2, llama or bert");
}

TEST(DeepSpeed, ReportsUnknownKeys) {
  EXPECT_CONTAINS(dropped(converted(R"({"zero_optimisation": {"stage": 3}})"), "zero_optimisation"), "does not know");
}

TEST(DeepSpeed, BadFileIsNamedWithKey) {
  EXPECT_CONTAINS(refusal("{"), "FILE = ds_config.json: is not JSON");
  EXPECT_CONTAINS(refusal("[]"), "is not a JSON object");
  EXPECT_CONTAINS(refusal(R"({"train_batch_size": 1, "train_batch_size": 2})"), "occurs twice");
  EXPECT_CONTAINS(refusal(R"({"train_batch_size": "many"})"),
                  "ds_config.json: train_batch_size = \"many\": is not a number");
  EXPECT_CONTAINS(refusal(R"({"train_batch_size": 1.5})"), "is not a whole number");
  EXPECT_CONTAINS(refusal(R"({"train_batch_size": -8})"), "ds_config.json: train_batch_size");
  EXPECT_CONTAINS(refusal(R"({"zero_optimization": {"stage": 4}})"), "zero_optimization.stage");
  EXPECT_CONTAINS(refusal(R"({"zero_optimization": true})"), "is not an object");
  EXPECT_CONTAINS(refusal(R"({"bf16": {"enabled": "yes"}})"), "is neither true nor false");
  EXPECT_CONTAINS(refusal(R"({"optimizer": {"type": "Adam", "params": {"betas": 0.9}}})"),
                  "is not a list of two numbers");
  EXPECT_CONTAINS(refusal(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}})"),
                  "no nvme_path is given");
  EXPECT_CONTAINS(refusal(R"({"zero_optimization": {"offload_param": {"device": "tape"}}})"), "is not a device");
}

}  // namespace
}  // namespace zero
