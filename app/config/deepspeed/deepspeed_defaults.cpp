#include "app/config/deepspeed/deepspeed_defaults.h"

#include <algorithm>
#include <array>

#include "zero/base/error/check.h"

namespace zero {
namespace {

// Values of DeepSpeed 0.19.8, from runtime/constants.py, runtime/precision_config.py, runtime/zero/config.py,
// runtime/zero/offload_config.py, ops/*, runtime/lr_schedules.py and runtime/zero/muon/original_muon.py. The values of
// sgd, torch_adam and torch_adamw are from torch.optim of PyTorch 2.11, which DeepSpeed calls for these optimizers.
constexpr std::array kDeepSpeed{
    DeepSpeedDefault{"gradient_clipping", 1.0},
    DeepSpeedDefault{"fp16.loss_scale", 0},
    DeepSpeedDefault{"fp16.initial_scale_power", 16},
    DeepSpeedDefault{"fp16.loss_scale_window", 1000},
    DeepSpeedDefault{"fp16.hysteresis", 2},
    DeepSpeedDefault{"fp16.min_loss_scale", 1},
    DeepSpeedDefault{"zero_optimization.stage", 0},
    DeepSpeedDefault{"zero_optimization.zero_hpz_partition_size", 1},
    DeepSpeedDefault{"zero_optimization.offload_optimizer.ratio", 1.0},
    DeepSpeedDefault{"adam.lr", 1e-3},
    DeepSpeedDefault{"adam.beta1", 0.9},
    DeepSpeedDefault{"adam.beta2", 0.999},
    DeepSpeedDefault{"adam.eps", 1e-8},
    DeepSpeedDefault{"adam.weight_decay", 0},
    DeepSpeedDefault{"torch_adam.lr", 1e-3},
    DeepSpeedDefault{"torch_adam.beta1", 0.9},
    DeepSpeedDefault{"torch_adam.beta2", 0.999},
    DeepSpeedDefault{"torch_adam.eps", 1e-8},
    DeepSpeedDefault{"torch_adam.weight_decay", 0},
    DeepSpeedDefault{"torch_adamw.lr", 1e-3},
    DeepSpeedDefault{"torch_adamw.beta1", 0.9},
    DeepSpeedDefault{"torch_adamw.beta2", 0.999},
    DeepSpeedDefault{"torch_adamw.eps", 1e-8},
    DeepSpeedDefault{"torch_adamw.weight_decay", 0.01},
    DeepSpeedDefault{"sgd.lr", 1e-3},
    DeepSpeedDefault{"sgd.momentum", 0},
    DeepSpeedDefault{"sgd.weight_decay", 0},
    DeepSpeedDefault{"lamb.lr", 1e-3},
    DeepSpeedDefault{"lamb.beta1", 0.9},
    DeepSpeedDefault{"lamb.beta2", 0.999},
    DeepSpeedDefault{"lamb.eps", 1e-8},
    DeepSpeedDefault{"lamb.weight_decay", 0},
    DeepSpeedDefault{"lamb.min_coeff", 0.01},
    DeepSpeedDefault{"lamb.max_coeff", 10},
    DeepSpeedDefault{"lion.lr", 1e-3},
    DeepSpeedDefault{"lion.beta1", 0.9},
    DeepSpeedDefault{"lion.beta2", 0.999},
    DeepSpeedDefault{"lion.weight_decay", 0},
    DeepSpeedDefault{"muon.lr", 0.02},
    DeepSpeedDefault{"muon.momentum", 0.95},
    DeepSpeedDefault{"muon.weight_decay", 0},
    DeepSpeedDefault{"muon.adam_lr", 3e-4},
    DeepSpeedDefault{"muon.beta1", 0.9},
    DeepSpeedDefault{"muon.beta2", 0.95},
    DeepSpeedDefault{"muon.eps", 1e-10},
    DeepSpeedDefault{"WarmupLR.warmup_min_lr", 0},
    DeepSpeedDefault{"WarmupLR.warmup_num_steps", 1000},
    DeepSpeedDefault{"WarmupDecayLR.warmup_min_lr", 0},
    DeepSpeedDefault{"WarmupDecayLR.warmup_max_lr", 1e-3},
    DeepSpeedDefault{"WarmupDecayLR.warmup_num_steps", 1000},
    DeepSpeedDefault{"WarmupCosineLR.warmup_min_ratio", 0},
    DeepSpeedDefault{"WarmupCosineLR.warmup_num_steps", 1000},
    DeepSpeedDefault{"WarmupCosineLR.cos_min_ratio", 1e-4},
};

// Values of transformers 5.24: integrations/deepspeed.py has the keys that it fills in, training_args.py the values.
constexpr std::array kTrainer{
    TrainerDefault{"train_micro_batch_size_per_gpu", "per_device_train_batch_size", "8"},
    TrainerDefault{"gradient_accumulation_steps", "gradient_accumulation_steps", "1"},
    TrainerDefault{"gradient_clipping", "max_grad_norm", "1.0"},
    TrainerDefault{"fp16.enabled", "fp16", "false"},
    TrainerDefault{"bf16.enabled", "bf16", "false"},
    TrainerDefault{"optimizer.params.lr", "learning_rate", "5e-5"},
    TrainerDefault{"optimizer.params.betas", "adam_beta1, adam_beta2", "[0.9, 0.999]"},
    TrainerDefault{"optimizer.params.eps", "adam_epsilon", "1e-8"},
    TrainerDefault{"optimizer.params.weight_decay", "weight_decay", "0.0"},
    TrainerDefault{"scheduler.params.warmup_max_lr", "learning_rate", "5e-5"},
    TrainerDefault{"scheduler.params.warmup_num_steps", "warmup_steps", "0"},
    TrainerDefault{"scheduler.params.total_num_steps", "num_train_epochs", "3"},
};

}  // namespace

std::span<const DeepSpeedDefault> deepspeed_defaults() {
  return kDeepSpeed;
}

double deepspeed_default(std::string_view name) {
  const auto* const found = std::ranges::find(kDeepSpeed, name, &DeepSpeedDefault::name);
  ZERO_CHECK(found != kDeepSpeed.end(), "no default of DeepSpeed's key {}", name);
  return found->value;
}

std::span<const TrainerDefault> trainer_defaults() {
  return kTrainer;
}

const TrainerDefault* trainer_default(std::string_view name) {
  const auto* const found = std::ranges::find(kTrainer, name, &TrainerDefault::name);
  return found == kTrainer.end() ? nullptr : found;
}

}  // namespace zero
