#!/usr/bin/env python3
"""Prints the defaults of the installed DeepSpeed and of Hugging Face's Trainer as JSON, by the names of
app/config/deepspeed/deepspeed_defaults.cpp. It parses the sources instead of importing them, because DeepSpeed needs a
compiler and the tools of a GPU. PYTHONPATH may name the folder of DeepSpeed's sources. Its readers are
tests/config/deepspeed/deepspeed_defaults_test.cpp and tests/python/libraries/deepspeed_defaults_test.py.

    python3 deepspeed_defaults.py deepspeed    {"version": "0.19.8", "gradient_clipping": 1.0, "lion.beta2": 0.999, ...}
    python3 deepspeed_defaults.py transformers {"version": "5.24.0", "learning_rate": 5e-05, ...}
"""

import ast
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path


def folder_of(package):
    return Path(importlib.util.find_spec(package).submodule_search_locations[0])


def tree_of(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def value_of(node):
    """The value of a literal, Field(literal, ...), pp_int(literal) or field(default=literal); None for anything
    else."""
    if isinstance(node, ast.Call):
        named = [keyword.value for keyword in node.keywords if keyword.arg == "default"]
        return value_of(named[0]) if named else value_of(node.args[0]) if node.args else None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def constants_of(tree):
    """Values of the names that a file assigns: {"WARMUP_LOG_RATE": "log", ...}."""
    return {
        node.targets[0].id: value_of(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def class_of(tree, name):
    return next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)


def fields_of(tree, name):
    """Defaults of a class with annotated members: {"stage": 0, ...}."""
    members = [node for node in class_of(tree, name).body if isinstance(node, ast.AnnAssign) and node.value is not None]
    return {node.target.id: value_of(node.value) for node in members}


def arguments_of(tree, name):
    """Defaults of a class's constructor: {"lr": 1e-3, ...}."""
    body = class_of(tree, name).body
    made = next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    names = [argument.arg for argument in made.args.args][-len(made.args.defaults) :]
    constants = constants_of(tree)

    def default_of(node):
        return constants[node.id] if isinstance(node, ast.Name) else value_of(node)

    return {name: default_of(default) for name, default in zip(names, made.args.defaults)}


def put(found, prefix, values, *names):
    for name in names:
        value = values[name]
        if name == "betas":
            found[f"{prefix}beta1"], found[f"{prefix}beta2"] = value
        else:
            found[prefix + name] = value


def muon_groups(tree):
    """Defaults of group.get("lr", 0.02) and others: for the group of matrices, and for the other group."""
    made = next(node for node in class_of(tree, "MuonWithAuxAdam").body if getattr(node, "name", "") == "__init__")
    branch = next(node for node in ast.walk(made) if isinstance(node, ast.If))

    def gets(body):
        calls = [node for part in body for node in ast.walk(part) if isinstance(node, ast.Call)]
        return {
            call.args[0].value: value_of(call.args[1])
            for call in calls
            if getattr(call.func, "attr", "") == "get" and len(call.args) == 2
        }

    return gets(branch.body), gets(branch.orelse)


def of_deepspeed():
    root = folder_of("deepspeed")
    found = {"version": importlib.metadata.version("deepspeed")}
    constants = constants_of(tree_of(root / "runtime/constants.py"))
    found["gradient_clipping"] = constants["GRADIENT_CLIPPING_DEFAULT"]
    found["data_types.grad_accum_dtype"] = constants["GRAD_ACCUM_DTYPE_DEFAULT"]
    found["optimizer.params.adam_w_mode"] = constants_of(tree_of(root / "runtime/config.py"))["ADAM_W_MODE_DEFAULT"]
    precisions = tree_of(root / "runtime/precision_config.py")
    put(found, "bf16.", fields_of(precisions, "DeepSpeedBF16Config"), "check_grad_overflow")
    put(
        found,
        "fp16.",
        fields_of(precisions, "DeepSpeedFP16Config"),
        "loss_scale",
        "initial_scale_power",
        "loss_scale_window",
        "hysteresis",
        "consecutive_hysteresis",
        "min_loss_scale",
    )
    put(
        found,
        "zero_optimization.",
        fields_of(tree_of(root / "runtime/zero/config.py"), "DeepSpeedZeroConfig"),
        "stage",
        "zero_hpz_partition_size",
    )
    put(
        found,
        "zero_optimization.offload_optimizer.",
        fields_of(tree_of(root / "runtime/zero/offload_config.py"), "DeepSpeedZeroOffloadOptimizerConfig"),
        "ratio",
    )
    adam = ("lr", "betas", "eps", "weight_decay")
    for rule, file, name, keys in [
        ("adam", "adam/fused_adam.py", "FusedAdam", adam),
        ("lamb", "lamb/fused_lamb.py", "FusedLamb", adam + ("min_coeff", "max_coeff")),
        ("lion", "lion/fused_lion.py", "FusedLion", ("lr", "betas", "weight_decay")),
    ]:
        put(found, f"{rule}.", arguments_of(tree_of(root / "ops" / file), name), *keys)
    # The host's optimizers have the same defaults.
    for rule, file, name, keys in [
        ("adam", "adam/cpu_adam.py", "DeepSpeedCPUAdam", adam),
        ("lion", "lion/cpu_lion.py", "DeepSpeedCPULion", ("lr", "betas", "weight_decay")),
    ]:
        host = {}
        put(host, f"{rule}.", arguments_of(tree_of(root / "ops" / file), name), *keys)
        assert all(found[key] == value for key, value in host.items()), (rule, host)
    matrices, others = muon_groups(tree_of(root / "runtime/zero/muon/original_muon.py"))
    put(found, "muon.", matrices, "lr", "momentum", "weight_decay", "ns_method")
    put(found, "muon.", {**others, "adam_lr": others["lr"]}, "adam_lr", "betas", "eps")
    schedules = tree_of(root / "runtime/lr_schedules.py")
    for name in ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "LRRangeTest", "OneCycle"):
        arguments = arguments_of(schedules, name)
        put(found, f"{name}.", arguments, *arguments)
    if importlib.util.find_spec("torch"):
        optim = folder_of("torch") / "optim"
        put(found, "torch_adam.", arguments_of(tree_of(optim / "adam.py"), "Adam"), *adam)
        put(found, "torch_adamw.", arguments_of(tree_of(optim / "adamw.py"), "AdamW"), *adam)
        put(found, "sgd.", arguments_of(tree_of(optim / "sgd.py"), "SGD"), "lr", "momentum", "weight_decay", "nesterov")
    return found


def of_transformers():
    tree = tree_of(folder_of("transformers") / "training_args.py")
    fields = fields_of(tree, "TrainingArguments")
    # The default optimizer depends on the version of torch.
    optimizers = [
        value_of(node.value)
        for node in ast.walk(class_of(tree, "TrainingArguments"))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "default_optim"
    ]
    return {
        "version": importlib.metadata.version("transformers"),
        **{name: value for name, value in fields.items() if isinstance(value, (bool, int, float, str))},
        "optim": optimizers,
    }


print(json.dumps({"deepspeed": of_deepspeed, "transformers": of_transformers}[sys.argv[1]]()))
