// DeepSpeed's keys without a counterpart. Names as in its documentation ("DeepSpeed Configuration JSON").
#include <algorithm>
#include <array>

#include "app/config/deepspeed/deepspeed.h"

namespace zero {
namespace {

struct Reason {
  std::string_view name;  // of a key, or of a section for all its keys
  std::string_view text;
};

constexpr std::string_view kPrecision = "there is no automatic mixed precision: train.dtype is the type of everything";
constexpr std::string_view kAlways = "always so";
constexpr std::string_view kUnits = "a unit is a block of the model; zero.device_memory bounds the gathered units";
constexpr std::string_view kBuffers = "zero.cpp chooses the buffers of its transfers";
constexpr std::string_view kGroups = "the nearest is zero.group: the ranks that hold one copy of the model";
constexpr std::string_view kSplit = "zero.cpp splits states and samples, never an operator";
constexpr std::string_view kMetrics = "metrics.jsonl in the run folder has every step";
constexpr std::string_view kScaling = "gradients are summed in fp32, so they need no scaling";
constexpr std::string_view kOwnOptimizers = "zero.cpp has optimizers of its own";
constexpr std::string_view kWeights = "a run ends with model.safetensors; zero export writes one from a checkpoint";
constexpr std::string_view kNone = "zero.cpp has nothing like it";

constexpr std::array kReasons{
    Reason{"amp", kPrecision},
    Reason{"torch_autocast", kPrecision},
    Reason{"bf16.check_grad_overflow", "health.non_finite says what happens to a gradient that is not finite"},
    Reason{"bf16", "master and moments are fp32"},
    Reason{"fp16.auto_cast", "inputs are the model's to convert"},
    Reason{"fp16", "master and moments are fp32; the loss scale is train.loss_scale"},
    Reason{"data_types", "train.dtype is the type of parameters; buffers keep theirs"},
    Reason{"communication_data_type", "gradients are sent in train.dtype and summed in fp32"},
    Reason{"gradient_allreduce_op", "gradients are averaged over ranks"},
    Reason{"prescale_gradients", kScaling},
    Reason{"gradient_predivide_factor", kScaling},
    Reason{"sparse_gradients", kNone},
    Reason{"managed_gradient_accumulation", "train.accumulate says how many micro-batches a step has"},
    Reason{"dataloader_drop_last", "every batch is whole"},
    Reason{"activation_checkpointing",
           "for a gpt2, llama or bert: train.checkpoint_activations, train.offload_activations"},
    Reason{"aio", kBuffers},
    Reason{"zero_allow_untested_optimizer", kOwnOptimizers},
    Reason{"zero_force_ds_cpu_optimizer", kOwnOptimizers},
    Reason{"tensor_parallel", kSplit},
    Reason{"expert_parallel", kSplit},
    Reason{"pipeline", kSplit},
    Reason{"wall_clock_breakdown", "use run.timeline"},
    Reason{"comms_logger", "use run.timeline"},
    Reason{"memory_breakdown", "report.json has the bytes of each state"},
    Reason{"dump_state", "the run folder has config.toml"},
    Reason{"flops_profiler", "report.json has the utilization"},
    Reason{"autotuning", "zero plan says what fits, and how long a step takes"},
    Reason{"log_level", "use ZERO_LOG_LEVEL"},
    Reason{"tensorboard", "use run.tensorboard"},
    Reason{"wandb", kMetrics},
    Reason{"comet", kMetrics},
    Reason{"csv_monitor", kMetrics},
    Reason{"elasticity", "use run.max_restarts and run.min_ranks"},
    Reason{"checkpoint", "any number of ranks loads a checkpoint as it is; see [checkpoint]"},
    Reason{"sparse_attention", kNone},
    Reason{"data_efficiency", kNone},
    Reason{"curriculum_learning", kNone},
    Reason{"compression_training", kNone},
    Reason{"progressive_layer_drop", kNone},
    Reason{"eigenvalue", kNone},
    Reason{"hybrid_engine", kNone},
    Reason{"compile", kNone},
    Reason{"zero_optimization.save_muon_momentum_buffer_in_memory",
           "zero.optimizer sets the tier of each part of a momentum"},
    Reason{"zero_optimization.overlap_comm", "gathers and reductions always overlap with computation"},
    Reason{"zero_optimization.contiguous_gradients", kAlways},
    Reason{"zero_optimization.reduce_scatter", kAlways},
    Reason{"zero_optimization.allgather_partitions", kAlways},
    Reason{"zero_optimization.load_from_fp32_weights", kAlways},
    Reason{"zero_optimization.elastic_checkpoint", kAlways},
    Reason{"zero_optimization.ignore_unused_parameters", kAlways},
    Reason{"zero_optimization.round_robin_gradients", kAlways},
    Reason{"zero_optimization.reduce_bucket_size", kUnits},
    Reason{"zero_optimization.allgather_bucket_size", kUnits},
    Reason{"zero_optimization.sub_group_size", "updates go through tiles of one size"},
    Reason{"zero_optimization.stage3_max_live_parameters", kUnits},
    Reason{"zero_optimization.stage3_max_reuse_distance", kUnits},
    Reason{"zero_optimization.stage3_prefetch_bucket_size", kUnits},
    Reason{"zero_optimization.stage3_param_persistence_threshold", kUnits},
    Reason{"zero_optimization.stage3_model_persistence_threshold", kUnits},
    Reason{"zero_optimization.stage3_module_granularity_threshold", kUnits},
    Reason{"zero_optimization.stage3_gather_16bit_weights_on_model_save", kWeights},
    Reason{"zero_optimization.stage3_gather_fp16_weights_on_model_save", kWeights},
    Reason{"zero_optimization.zero_quantized_nontrainable_weights",
           "the nearest is comm.gather_wire, of all parameters"},
    Reason{"zero_optimization.zeropp_loco_param", "comm.reduce_wire rounds without bias, and keeps no errors"},
    Reason{"zero_optimization.mics_hierarchical_params_gather", kGroups},
    Reason{"zero_optimization.zenflow", "the nearest is zero.delayed_update"},
    Reason{"zero_optimization.cpu_offload_use_pin_memory", kBuffers},
    Reason{"zero_optimization.offload_param.max_in_cpu", "use a fraction: zero.parameter = {host = 0.5, disk = 0.5}"},
    Reason{"zero_optimization.offload_param", kBuffers},
    Reason{"zero_optimization.offload_optimizer", kBuffers},
    Reason{"optimizer.params.torch_adam", kOwnOptimizers},
    Reason{"optimizer.params.fused", kOwnOptimizers},
    Reason{"optimizer.params.bias_correction", "moments are always corrected"},
    Reason{"optimizer.params", "the optimizer has no such parameter here"},
};

// Keys with the default true, for which `false` changes the step.
constexpr std::array<std::string_view, 4> kFalseCounts{"optimizer.params.bias_correction", "bf16.check_grad_overflow",
                                                       "bfloat16.check_grad_overflow", "managed_gradient_accumulation"};

}  // namespace

bool false_counts(std::string_view name) {
  return std::ranges::find(kFalseCounts, name) != kFalseCounts.end();
}

std::string_view reason_to_drop(std::string_view name) {
  const auto applies = [&](const Reason& reason) {
    return name == reason.name || (name.starts_with(reason.name) && name[reason.name.size()] == '.');
  };
  const auto found = std::ranges::find_if(kReasons, applies);
  return found == kReasons.end() ? "zero convert does not know this key" : found->text;
}

}  // namespace zero
