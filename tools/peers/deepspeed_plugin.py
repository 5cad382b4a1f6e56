"""The pytest plug-in of tools/peers/deepspeed_suite.py: DeepSpeed's tests call zerocpp.deepspeed, on CPUs.

DeepSpeed's helpers are used as they are. Its public functions are replaced before a test is imported, also in the
ranks. Ranks are forked from a server that has imported torch, and end with the first failure or after a limit.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deepspeed
import pytest
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.git_version_info import torch_info
from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus
from torch.nn.parallel import DistributedDataParallel
from unit import common
from unit.checkpoint import common as checkpoints
from unit.simple_model import random_dataloader

import zerocpp.deepspeed as ours
from zerocpp.deepspeed._optimizer import DeepSpeedOptimizer
from zerocpp.deepspeed.utils import zero_to_fp32

PLAN = json.loads(Path(os.environ["ZERO_SUITE_PLAN"]).read_text())
MODULES = (
    "deepspeed",
    "deepspeed.utils",
    "deepspeed.utils.zero_to_fp32",
    "deepspeed.ops.adam",
    "deepspeed.runtime.base_optimizer",
    "deepspeed.runtime.engine",
    "deepspeed.runtime.lr_schedules",
    "deepspeed.runtime.zero",
    "deepspeed.runtime.zero.partition_parameters",
)
_reached = False
_in_fp32 = False


# ---- DeepSpeed's functions


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        global _reached
        _reached = True
        return function(*arguments, **named)

    return call


def _replace() -> None:
    """Replaces each public function of DeepSpeed that zerocpp.deepspeed has, in each module that exports it."""
    own: dict[str, Any] = {"initialize": _counted(_initialize), "Init": _counted(ours.zero.Init)}
    own |= {name: _counted(getattr(ours.utils, name)) for name in dir(ours.utils) if name.startswith("safe_")}
    own |= {name: _counted(value) for name, value in vars(zero_to_fp32).items() if "_zero_checkpoint" in name}
    own |= {name: getattr(ours.ops.adam, name) for name in ("FusedAdam", "DeepSpeedCPUAdam")}
    own |= {name: getattr(ours.zero, name) for name in ours.zero.__all__ if not name.startswith(("Init", "ZeroP"))}
    own |= {name: getattr(ours, name) for name in ("DeepSpeedEngine", *ours._schedules.SCHEDULES)}
    ours.zero.ZeroParamStatus = ZeroParamStatus
    own["ZeROOptimizer"] = DeepSpeedOptimizer
    for module in map(importlib.import_module, MODULES):
        for name, value in own.items():
            if hasattr(module, name):
                setattr(module, name, value)


def _initialize(*arguments: Any, **named: Any) -> Any:
    """Adds attributes that tests read, although they belong to no interface."""
    found = ours.initialize(*arguments, **named)
    for parameter in found[0].module.parameters():
        parameter.ds_persist = False
    if found[1] is not None:
        found[1].leaf_parameters = {}
    return found


def _compare_checkpoints() -> None:
    """DeepSpeed's comparison of optimizers reads its own classes. This one reads masters and moments of engines."""

    def compare(saved: Any, loaded: Any, hidden_dim: int, fp16: bool = True) -> None:
        parameters = zip(saved.module.parameters(), loaded.module.parameters(), strict=True)
        for first, second in parameters:
            assert saved.core.state_names(first) == loaded.core.state_names(second)
            for name in saved.core.state_names(first):
                assert torch.equal(saved.core.state(first, name), loaded.core.state(second, name)), name

    checkpoints.compare_optimizer_states = compare
    ours.DeepSpeedEngine.sparse_tensor_module_names = set()
    ours.DeepSpeedEngine._get_optimizer_ckpt_name = lambda self, *arguments: ""


def _run_on_cpus() -> None:
    """Replaces the values that the tests read from an accelerator."""
    device = get_accelerator()
    device.current_device_name = device.current_device = lambda: "cpu"
    device.is_bf16_supported = device.is_fp16_supported = lambda: not _in_fp32
    original = DistributedDataParallel.__init__

    def wrap(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, **named: Any) -> None:
        original(self, module, **named)

    DistributedDataParallel.__init__ = wrap

    def flags(flag: bool, op: Callable[[list[bool]], bool] = all) -> bool:
        values: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(values, flag)
        return op(values)

    common.reduce_boolean_flags = flags
    torch_info.update(nccl_version="2.27", bf16_support=True, cuda_version="12.8")
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None  # would compile C++


# ---- the ranks


def _rank(test: Any, rank: int, ranks: int, port: str, init_method: str, in_fp32: bool, out: Connection) -> None:
    global _reached, _in_fp32
    _reached, _in_fp32 = False, in_fp32
    if in_fp32:
        random_dataloader.__defaults__ = (torch.float32,)
    try:
        skipped = test._dist_run(rank, ranks, port, init_method)
        out.send(("skipped" if skipped else "passed", skipped, _reached))
    except BaseException:
        out.send(("failed", f"rank {rank}\n{traceback.format_exc()}", _reached))
    out.close()
    os._exit(0)


def _launch(test: Any, ranks: int, init_method: str) -> None:
    """Runs the test on forked ranks. It ends 5 s after the first failure, or at the limit."""
    global _reached
    context = multiprocessing.get_context("forkserver")
    port = common.get_master_port(20000 + os.getpid() % 9000)
    processes, open_ends = [], []
    for rank in range(ranks):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_rank, args=(test, rank, ranks, port, init_method, _in_fp32, writer))
        process.start()
        writer.close()
        processes.append(process)
        open_ends.append(reader)
    end, said = time.monotonic() + PLAN["limit"], []
    while open_ends and (left := end - time.monotonic()) > 0:
        for reader in wait(open_ends, left):
            open_ends.remove(reader)
            try:
                said.append(reader.recv())
            except EOFError:
                said.append(("failed", "a rank died", True))
            if said[-1][0] == "failed":
                end = min(end, time.monotonic() + 5)
    for process in processes:
        process.kill()
        process.join()
    _reached = _reached or any(row[2] for row in said)
    failures = [row[1] for row in said if row[0] == "failed"]
    if failures:
        pytest.fail("\n".join(reversed(failures)), pytrace=False)
    if len(said) < ranks:
        pytest.fail(f"{ranks - len(said)} of {ranks} ranks ran longer than {PLAN['limit']} s", pytrace=False)
    skips = [row[1] for row in said if row[0] == "skipped"]
    if skips:
        pytest.skip(skips[0])


# ---- pytest


def _ranks_of(item: Any) -> int:
    wanted: Any = getattr(item.cls, "world_size", 1)
    for mark in item.iter_markers("world_size"):
        wanted = mark.args[0]
    if "world_size" in getattr(getattr(item, "callspec", None), "params", {}):
        wanted = item.callspec.params["world_size"]
    return max(wanted) if isinstance(wanted, (list, tuple)) else int(wanted)


def _is_in(table: str, case: str) -> bool:
    names = (case, case.split("[")[0])
    patterns = [pattern.replace("[", "[[]") for pattern in PLAN[table]]
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in names)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    by_test: dict[str, list[Any]] = {}
    for item in items:
        if not _is_in("internal", item.nodeid):
            by_test.setdefault(item.nodeid.split("[")[0], []).append(item)
    chosen: list[Any] = []
    for cases in by_test.values():
        few = [item for item in cases if _ranks_of(item) <= PLAN["ranks"]]
        count = min(len(few), PLAN["cases"] or len(few))
        # A single case is taken from the middle: the first is often stage 0 or 1, and the last is a rare device.
        chosen += [few[(2 * number + 1) * len(few) // (2 * count)] for number in range(count)]
    done = set(PLAN["done"])
    items[:] = [item for item in chosen if item.nodeid not in done]


def pytest_runtest_setup(item: Any) -> None:
    global _reached, _in_fp32
    _reached, _in_fp32 = False, _is_in("fp32", item.nodeid)
    Path(PLAN["begun"]).write_text(item.nodeid)


def _write(case: str, outcome: str, text: str, seconds: float = 0.0) -> None:
    row = {"case": case, "outcome": outcome, "text": text, "reached": _reached, "seconds": round(seconds, 2)}
    with Path(PLAN["results"]).open("a") as file:
        file.write(json.dumps(row) + "\n")


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
        _write(report.nodeid, report.outcome, text, report.duration)


def pytest_collectreport(report: Any) -> None:
    if report.failed and "::" not in report.nodeid:
        _write(report.nodeid, "failed", f"cannot be imported: {report.longrepr}")


_run_on_cpus()
if not PLAN["theirs"]:
    _replace()
    _compare_checkpoints()
common.DistributedExec._launch_procs = _launch
common.time = SimpleNamespace(sleep=lambda seconds: None, time=time.time)
multiprocessing.set_forkserver_preload(["deepspeed_plugin"])
