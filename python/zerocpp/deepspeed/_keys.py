"""The keys of DeepSpeed 0.19.8's configuration, and what the package does with each.

`zero convert` (app/config/deepspeed) maps the same keys to zero.toml. Change both together.
"""

from __future__ import annotations

# Sections whose keys are read one by one, and these keys.
READ: dict[str, tuple[str, ...]] = {
    "": (
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "gradient_clipping",
        "steps_per_print",
        "dataloader_drop_last",
        "gradient_allreduce_op",
        "managed_gradient_accumulation",
        "optimizer",
        "scheduler",
        "bf16",
        "bfloat16",
        "fp16",
        "data_types",
        "torch_autocast",
        "zero_optimization",
    ),
    "optimizer": ("type", "params"),
    "scheduler": ("type", "params"),
    "bf16": ("enabled",),
    "fp16": ("enabled", "auto_cast", "loss_scale"),
    "data_types": ("grad_accum_dtype", "param_dtype", "buffer_dtype"),
    "torch_autocast": ("enabled", "dtype"),
    "zero_optimization": (
        "stage",
        "offload_optimizer",
        "offload_param",
        "cpu_offload",
        "cpu_offload_param",
        "cpu_offload_params",
        "zero_quantized_weights",
        "zero_quantized_gradients",
        "zero_hpz_partition_size",
        "mics_shard_size",
    ),
    "zero_optimization.offload_optimizer": ("device", "nvme_path", "ratio"),
    "zero_optimization.offload_param": ("device", "nvme_path"),
}

_BUFFERS = "zero.cpp chooses the buffers of its transfers"
_UNITS = "a unit is a block of the model; its memory is bounded by the engine"
_ALWAYS = "always so"
_SCALING = "gradients are summed in fp32, so they need no scaling"
_REPORT = "use engine.core.report()"
_MASTERS = "master weights and moments are fp32"

# Keys without an effect on the weights: read, listed once, and ignored.
IGNORED: dict[str, str] = {
    "communication_data_type": "gradients are sent in the type of the parameters and summed in fp32",
    "seq_parallel_communication_data_type": "there is no sequence parallelism",
    "prescale_gradients": _SCALING,
    "gradient_predivide_factor": _SCALING,
    "sparse_gradients": "gradients of embeddings are sent dense",
    "activation_checkpointing": "use torch.utils.checkpoint",
    "aio": _BUFFERS,
    "zero_allow_untested_optimizer": "the rules are zero.cpp's own",
    "zero_force_ds_cpu_optimizer": "the rules are zero.cpp's own",
    "disable_allgather": _ALWAYS,
    "wall_clock_breakdown": _REPORT,
    "comms_logger": _REPORT,
    "memory_breakdown": _REPORT,
    "flops_profiler": _REPORT,
    "dump_state": "read the JSON file",
    "autotuning": "zero plan tells what fits",
    "log_level": "use logging.getLogger('zerocpp')",
    "tensorboard": "write the values of engine.core.step() yourself",
    "wandb": "write the values of engine.core.step() yourself",
    "comet": "write the values of engine.core.step() yourself",
    "csv_monitor": "write the values of engine.core.step() yourself",
    "checkpoint": "a checkpoint can be loaded by any number of ranks",
    "compile": "call engine.compile()",
    "use_data_before_expert_parallel_": "there is no expert parallelism",
    "graph_harvesting": "there are no CUDA graphs",
    "bf16.immediate_grad_update": "gradients are reduced during backward",
    "bf16.check_grad_overflow": "a step is skipped if its gradient is not finite",
    "bf16.bf16_master_weights_and_grads": _MASTERS,
    "bf16.bf16_optimizer_states": _MASTERS,
    "torch_autocast.lower_precision_safe_modules": "gradients are sent in the type of the parameters",
    "fp16.fp16_master_weights_and_grads": _MASTERS,
    "fp16.initial_scale_power": "a dynamic loss scale begins at 2^16",
    "fp16.loss_scale_window": "a dynamic loss scale is doubled after 2,000 updates",
    "fp16.hysteresis": "each overflow halves the loss scale, also the first",
    "fp16.consecutive_hysteresis": "each overflow halves the loss scale",
    "fp16.min_loss_scale": "a dynamic loss scale is 1 or more",
    "zero_optimization.overlap_comm": "gathers and reductions always overlap with computation",
    "zero_optimization.contiguous_gradients": _ALWAYS,
    "zero_optimization.reduce_scatter": _ALWAYS,
    "zero_optimization.allgather_partitions": _ALWAYS,
    "zero_optimization.use_multi_rank_bucket_allreduce": _ALWAYS,
    "zero_optimization.load_from_fp32_weights": _ALWAYS,
    "zero_optimization.elastic_checkpoint": _ALWAYS,
    "zero_optimization.ignore_unused_parameters": _ALWAYS,
    "zero_optimization.round_robin_gradients": _ALWAYS,
    "zero_optimization.reduce_bucket_size": _UNITS,
    "zero_optimization.allgather_bucket_size": _UNITS,
    "zero_optimization.sub_group_size": "updates use tiles of one size",
    "zero_optimization.max_live_parameters": _UNITS,
    "zero_optimization.max_reuse_distance": _UNITS,
    "zero_optimization.prefetch_bucket_size": _UNITS,
    "zero_optimization.param_persistence_threshold": _UNITS,
    "zero_optimization.model_persistence_threshold": _UNITS,
    "zero_optimization.stage3_max_live_parameters": _UNITS,
    "zero_optimization.stage3_max_reuse_distance": _UNITS,
    "zero_optimization.stage3_prefetch_bucket_size": _UNITS,
    "zero_optimization.stage3_param_persistence_threshold": _UNITS,
    "zero_optimization.stage3_model_persistence_threshold": _UNITS,
    "zero_optimization.stage3_module_granularity_threshold": _UNITS,
    "zero_optimization.module_granularity_threshold": _UNITS,
    "zero_optimization.stage3_use_all_reduce_for_fetch_params": _BUFFERS,
    "zero_optimization.stage3_allgather_sequential": _BUFFERS,
    "zero_optimization.use_all_reduce_for_fetch_params": _BUFFERS,
    "zero_optimization.stage3_gather_16bit_weights_on_model_save": "save_16bit_model() always gathers",
    "zero_optimization.stage3_gather_fp16_weights_on_model_save": "save_16bit_model() always gathers",
    "zero_optimization.gather_16bit_weights_on_model_save": "save_16bit_model() always gathers",
    "zero_optimization.zero_quantized_nontrainable_weights": "zero_quantized_weights holds for all parameters",
    "zero_optimization.mics_hierarchical_params_gather": _BUFFERS,
    "zero_optimization.memory_efficient_linear": _ALWAYS,
    "zero_optimization.override_module_apply": "Module.apply() works as it is",
    "zero_optimization.cpu_offload_use_pin_memory": _BUFFERS,
    "zero_optimization.save_muon_momentum_buffer_in_memory": _BUFFERS,
    "zero_optimization.log_trace_cache_warnings": "no trace is needed",
    "zero_optimization.enable_sanity_checks": _ALWAYS,
    "zero_optimization.legacy_stage1": _ALWAYS,
    "zero_optimization.offload_optimizer": _BUFFERS,
    "zero_optimization.offload_param": _BUFFERS,
    "optimizer.legacy_fusion": "the rules are zero.cpp's own",
}

# Keys that would change the weights or the meaning of a script, and the remedy. They are refused unless switched off.
REFUSED: dict[str, str] = {
    "amp": "use bf16 or fp16",
    "tensor_parallel": "zero.cpp partitions states and samples, not operators",
    "expert_parallel": "zero.cpp partitions states and samples, not operators",
    "pipeline": "zero.cpp partitions states and samples, not operators",
    "sequence_parallel_size": "zero.cpp partitions states and samples, not sequences",
    "data_parallel_size": "all ranks are data-parallel",
    "elasticity": "any number of ranks can load a checkpoint: load it in a new run",
    "sparse_attention": "use an attention module of PyTorch",
    "data_efficiency": "prepare the data in the script",
    "curriculum_learning": "prepare the data in the script",
    "compression_training": "compress the model in the script",
    "progressive_layer_drop": "drop layers in the script",
    "eigenvalue": "leave it out",
    "hybrid_engine": "leave it out",
    "weight_quantization": "leave it out",
    "zero_optimization.zenflow": "leave it out",
    "zero_optimization.zeropp_loco_param": "use zero_quantized_gradients only",
    "zero_optimization.super_offload": "leave it out",
    "zero_optimization.offload_optimizer.super_offload": "leave it out",
    "zero_optimization.leaf_module": "units need no leaf modules: leave it out",
}

# Parameters of the optimizers, with DeepSpeed's defaults.
OPTIMIZERS: dict[str, dict[str, object]] = {
    "adam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
    "adamw": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
    "sgd": {"lr": 1e-3, "momentum": 0.0, "weight_decay": 0.0, "nesterov": False},
    "lamb": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "min_coeff": 0.01, "max_coeff": 10.0},
    "lion": {"lr": 1e-3, "betas": (0.9, 0.999), "weight_decay": 0.0},
}

# Parameters of optimizers that choose an implementation, or hold always. With the value on the right they are ignored.
IGNORED_PARAMETERS: dict[str, object] = {
    "torch_adam": None,
    "fused": None,
    "bias_correction": True,
    "amsgrad": False,
    "foreach": None,
    "capturable": None,
    "set_grad_none": None,
    "fp32_optimizer_states": True,
    "maximize": False,
    "dampening": 0.0,
}

SCHEDULERS: dict[str, tuple[str, ...]] = {
    "WarmupLR": ("warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type", "last_batch_iteration"),
    "WarmupDecayLR": (
        "total_num_steps",
        "warmup_min_lr",
        "warmup_max_lr",
        "warmup_num_steps",
        "warmup_type",
        "last_batch_iteration",
    ),
    "WarmupCosineLR": (
        "total_num_steps",
        "warmup_min_ratio",
        "warmup_num_steps",
        "cos_min_ratio",
        "warmup_type",
        "last_batch_iteration",
    ),
}
