"""RunLog: a run's folder, for `zero report` and `zero compare`."""

from __future__ import annotations

import json
import math
import os
import re
import resource
import shlex
import socket
import statistics
import struct
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from zerocpp import _C, _options
from zerocpp._errors import refuse

if TYPE_CHECKING:
    from zerocpp._attached import Attached

_NOT_UTF8 = re.compile("[\ud800-\udfff]")  # how Python keeps bytes of a name that are not UTF-8
_WARMUP = 3  # steps that timing leaves out, as `zero train` does
# Options of attach() that zero.toml has under another name.
_KEYS = {
    "clip": "train.clip",
    "accumulate": "train.accumulate",
    "leaves": "train.leaves",
    "dtype": "train.dtype",
    "reduce_dtype": "train.reduce_dtype",
    "reduce": "train.reduce",
    "loss_scale": "train.loss_scale",
    "ema": "train.ema",
    "threads": "run.threads",
    "device": "run.device",
    **{name: f"parallel.{name}" for name in _options.OF_PIPELINES},
}
# Tiers below the device: their bytes in a report of the engine, and their keys in report.json.
_LOWER_TIERS = {
    "host": {"host_memory_bytes": "host_memory", "peak_host_memory_bytes": "peak_host_memory"},
    "disk": {"disk_bytes": "disk_memory"},
}
_OF_ZERO = ("stage", "group", "secondary_group", "shards", "device_memory", "host_memory", "disk", "disk_memory",
            "delayed_update", "checksums")  # fmt: skip


class RunLog:
    """Writes metrics.jsonl during a run, and report.json at its end, as `zero train` does. Rank 0 writes.

        with zero.RunLog("runs/mine", engine, samples_per_step=32) as log:
            for step in range(1000):
                loss = ...
                loss.backward()
                engine.step(loss=loss)          # a line with this loss, as the mean over ranks
            log.evaluation(zero.mean(val_loss))

    Construction and finish() are Collective, the other functions Local. `zero report runs/mine` draws the page of the
    run, `zero compare` its table. Leaving `with` normally calls finish().
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        engine: Attached,
        *,
        samples_per_step: int | None = None,
        tokens_per_step: int | None = None,
        steps: int | None = None,
        after_step: int | None = None,
        overwrite: bool = False,
        configuration: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """samples_per_step, tokens_per_step: sums over all ranks.

        steps: the number of steps of the whole run.
        after_step: continues the folder's run after this step; lines of later steps are removed.
        overwrite: replaces the log of a run in the folder, which is refused otherwise: config.toml, plan.txt,
            metrics.jsonl, report.json and timeline.json. Checkpoints and weights stay.
        configuration: additional keys of config.toml by section, such as {"data": {"path": "x.txt"}}.
        """
        self._folder, self._engine = Path(folder), engine
        self._samples, self._tokens = samples_per_step, tokens_per_step
        self._first = engine.world.rank == 0
        self._losses: list[float] = []
        self._norms: list[float] = []
        self._earlier: list[float] = []  # rank 0: seconds of the steps until `after_step`
        self._seconds: list[float] = []
        self._evaluation: dict[str, Any] = {}
        self._sent = 0
        self._done = 0 if after_step is None else after_step
        self._begin = self._last = time.monotonic()
        self._open = True
        self._file: Any = None
        self._collective(lambda: self._prepare(after_step, overwrite, steps, configuration or {}))
        engine.on_step(self._step)

    def _collective(self, write: Any) -> None:
        """Runs `write` on rank 0. Every rank raises its error, so none waits for a rank that has failed."""
        problem: Exception | None = None
        if self._first:
            try:
                write()
            except Exception as error:  # the other ranks wait in gather_text()
                problem = error
        kind, text = "", ""
        if problem is not None:
            kind = "config" if isinstance(problem, _C.ConfigError) else "io"
            text = str(problem) if isinstance(problem, (OSError, _C.Error)) else f"{type(problem).__name__}: {problem}"
        kind, text = json.loads(self._engine.world.gather_text(json.dumps([kind, _utf8(text)]))[0])
        if problem is not None and not isinstance(problem, OSError):
            raise problem
        if kind == "config":
            raise _C.ConfigError(text)
        if kind == "io":
            raise _C.IoError(
                f"run folder = {self._folder}: rank 0 cannot write: {text}\n  Name another folder."
            ) from problem

    # ---- rank 0's files

    def _prepare(
        self, after_step: int | None, overwrite: bool, steps: int | None, more: Mapping[str, Mapping[str, Any]]
    ) -> None:
        there = (self._folder / "config.toml").exists()
        if there and after_step is None and not overwrite:
            raise refuse("RunLog", self._folder, "the folder has a run", "name another, or say overwrite or after_step")
        self._folder.mkdir(parents=True, exist_ok=True)
        metrics = self._folder / "metrics.jsonl"
        kept = _lines_until(metrics, after_step) if after_step is not None else []
        (self._folder / "report.json").unlink(missing_ok=True)
        if after_step is None:
            (self._folder / "timeline.json").unlink(missing_ok=True)
        _replace(metrics, "".join(kept))
        for line in kept:
            entry = json.loads(line)
            if "val_loss" in entry:
                self._evaluation = {key: entry[key] for key in entry if key.startswith("val_")}
            if "step_seconds" in entry:
                self._losses.append(math.nan if entry.get("loss") is None else entry["loss"])
                self._norms.append(entry.get("grad_norm") or 0.0)
                self._earlier.append(entry["step_seconds"])
        self._configuration = self._sections(steps, more)
        _replace(self._folder / "config.toml", _toml(self._configuration))
        self._plan()
        self._file = open(metrics, "a", encoding="utf-8")  # noqa: SIM115 (open until finish())

    def _plan(self) -> None:
        """A pipeline is planned in the first passes()."""
        text = self._engine.plan_text()
        self._planned = bool(text)
        _replace(self._folder / "plan.txt", f"{text}\n")

    def _sections(self, steps: int | None, more: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"zero": {"stage": 3}, "train": {}, "optimizer": {"name": self._engine.rule}}
        for name, value in self._engine.options.items():
            key = _KEYS.get(name, f"zero.{name}" if name in _OF_ZERO else "")
            if key and value is not None:
                section, key = key.split(".")
                found.setdefault(section, {})[key] = value
        group = self._engine.optimizer.param_groups[0]
        for key in ("lr", "betas", "eps", "weight_decay", "momentum"):
            if key in group:
                found["optimizer"][key] = group[key]
        if steps is not None:
            found["train"]["steps"] = steps
        for section, values in more.items():
            found.setdefault(section, {}).update(values)
        return found

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(_for_json({"t": round(time.time(), 3), **line})) + "\n")
            self._file.flush()

    # ---- steps

    def _step(self, report: _C.StepReport) -> None:
        if not self._open:
            return
        now = time.monotonic()
        seconds, self._last = now - self._last, now
        own = self._engine.report()
        self._sent += own.sent_bytes_per_step
        self._done += 1
        self._losses.append(report.loss)
        self._norms.append(report.grad_norm)
        self._seconds.append(seconds)
        if not self._first:
            return
        if not self._planned:
            self._plan()
        work, passes = self._engine.work_seconds(), own.profile
        line: dict[str, Any] = {
            "step": self._done,
            "loss": report.loss,
            "lr": float(self._engine.optimizer.param_groups[0]["lr"]),
            "grad_norm": report.grad_norm,
        }
        if report.loss_scale is not None:
            line["loss_scale"] = report.loss_scale
        rate, per_step = ("tokens", self._tokens) if self._tokens else ("rows", self._samples)
        if per_step:
            line[f"{rate}_per_second"] = per_step / seconds
        line["step_seconds"] = seconds
        line["phase_seconds"] = {
            "forward": passes["forward_seconds"],
            "backward": passes["backward_seconds"],
            **work,
        }
        line["memory_bytes"] = own.memory
        for tier in _LOWER_TIERS:
            line[f"{tier}_bytes"] = getattr(own, f"{tier}_memory")["total"]
        line["sent_bytes"] = own.sent_bytes_per_step
        if self._samples:
            line["samples"] = self._samples * self._done
        if self._tokens:
            line["tokens"] = self._tokens * self._done
        self._write(line)
        if report.skipped:
            self._write(
                {
                    "step": self._done,
                    "event": "skipped",
                    "reason": report.reason,
                    **({"detail": report.bad_parameter} if report.bad_parameter else {}),
                    "loss": report.loss,
                    "grad_norm": report.grad_norm,
                }
            )

    def evaluation(
        self,
        val_loss: float | torch.Tensor,
        *,
        accuracy: float | None = None,
        perplexity: bool = False,
        seconds: float = 0.0,
    ) -> None:
        """Local. Logs an evaluation after the last step; its time does not count for the next step.

        val_loss: the mean over ranks, see zero.mean(). accuracy: from 0 to 1. perplexity: also logs exp(val_loss).
        """
        value = float(val_loss.detach() if isinstance(val_loss, torch.Tensor) else val_loss)
        line: dict[str, Any] = {"step": self._done, "val_loss": value}
        if accuracy is not None:
            line["val_accuracy"] = float(accuracy)
        if perplexity:
            line["val_perplexity"] = math.exp(min(value, 700.0))
        self._evaluation = {key: line[key] for key in line if key != "step"}
        self._write({**line, "eval_seconds": seconds})
        self._last = time.monotonic()

    # ---- the end

    def finish(self) -> None:
        """Collective. Writes report.json. A second call does nothing."""
        if not self._open:
            return
        self._open = False
        own = self._engine.report()
        mine = {
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "memory_bytes": own.memory,
            "peak_memory_bytes": own.peak_memory,
            **{key: getattr(own, name) for keys in _LOWER_TIERS.values() for key, name in keys.items()},
            "sent_bytes_per_step": own.sent_bytes_per_step,
            "received_bytes_per_step": own.received_bytes_per_step,
            "planned_sent_bytes_of_ranks": own.planned_sent_bytes,
            "state_formula_bytes_of_ranks": own.state_formula_bytes,
            "sent_formula_bytes_of_ranks": own.sent_formula_bytes,
            "sent_bytes_total": self._sent,
            "step_seconds": self._seconds,
        }
        ranks = [json.loads(text) for text in self._engine.world.gather_text(json.dumps(mine))]
        self._collective(lambda: self._finish(own, ranks))

    def _finish(self, own: _C.Report, ranks: list[dict[str, Any]]) -> None:
        self._file.close()
        self._file = None
        own_steps = zip(*(rank.pop("step_seconds") for rank in ranks), strict=True)
        slowest = self._earlier + [max(seconds) for seconds in own_steps]
        text = json.dumps(_for_json(self._report(own, ranks, slowest)), indent=1) + "\n"
        _replace(self._folder / "report.json", text)

    def _report(self, own: _C.Report, ranks: list[dict[str, Any]], seconds: list[float]) -> dict[str, Any]:
        timed = seconds[_WARMUP:] or seconds
        median = statistics.median(timed) if timed else 0.0
        rate, per_step = ("tokens", self._tokens) if self._tokens else ("rows", self._samples or 0)
        report: dict[str, Any] = {
            "system": "zero.cpp",
            "version": _C.version,
            "model": type(self._engine.model).__name__,
            "num_parameters": own.num_parameters,
            "world": own.world,
            "stage": own.stage,
            "dtype": self._engine.options.get("dtype") or "fp32",
            "device": self._engine.options.get("device") or "cpu",
            "steps": self._done,
            "losses": self._losses,
            "loss_bits": [_float_bits(loss) for loss in self._losses],  # one for each of `losses`
            "grad_norms": self._norms,
            "val_loss": None,
            **self._evaluation,
            "ended": "all steps",
            "step_seconds": seconds,
            "step_s_median": median,
            "step_s_min": min(timed, default=0.0),
            f"{rate}_per_step": per_step,
            f"{rate}_per_second": per_step / median if median else 0.0,
        }
        held = [key for keys in _LOWER_TIERS.values() for key in keys if not key.startswith("peak_")]
        lower = any(rank[key]["total"] for rank in ranks for key in held)
        for key in ranks[0]:
            if lower or not any(key in keys for keys in _LOWER_TIERS.values()):
                report[key] = [rank[key] for rank in ranks]
        report |= {
            "planned_sent_bytes": own.planned_sent_bytes,
            "padding_bytes": own.padding_bytes,
            "formula": {"state_bytes": own.state_formula_bytes, "sent_bytes": own.sent_formula_bytes},
            "profile": {**own.profile, "states_on_device": not lower},
            "predicted": None,
            "skipped_steps": own.skipped_steps,
            "delayed_steps": own.delayed_steps,
            "departed_steps": own.trace_mismatches,
            "replans": own.replans,
            "moved_bytes": own.moved_bytes,
            "transport": own.transport,
            "ranks_source": self._engine.world.source,
            "threads": self._engine.options.get("threads") or 1,
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "host": socket.gethostname(),
            "command": shlex.join(sys.orig_argv),
            "libtorch": torch.__version__.split("+")[0],
            "cores": len(os.sched_getaffinity(0)),
            "configuration": self._configuration,
        }
        if own.loss_scale is not None:
            report["loss_scale"] = own.loss_scale
        return report

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if kind is None:
            self.finish()


def _replace(file: Path, text: str) -> None:
    """Writes the file whole: a crash leaves the old file or the new one."""
    temporary = file.with_name(f".{file.name}")
    with open(temporary, "w", encoding="utf-8") as out:
        out.write(_utf8(text))
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, file)


def _lines_until(metrics: Path, step: int) -> list[str]:
    """The complete lines of steps up to `step`."""
    if not metrics.exists():
        return []
    kept = []
    text = metrics.read_text(encoding="utf-8", errors="replace")
    for line in text.split("\n")[:-1]:  # a killed run leaves half a line
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("step"), (int, float)) and entry["step"] <= step:
            kept.append(line + "\n")
    return kept


def _float_bits(value: float) -> str:
    """The bits of a float of 32 bits, also of NaN."""
    try:
        return struct.pack(">f", value).hex()
    except OverflowError:  # beyond 32 bits
        return struct.pack(">f", math.copysign(math.inf, value)).hex()


def _utf8(text: str) -> str:
    """`text` with a mark for each byte that is not UTF-8, as in sys.orig_argv."""
    return _NOT_UTF8.sub("\ufffd", text)


def _for_json(value: Any) -> Any:
    """`value` for JSON, which has no NaN (null replaces it), no tensor, and only UTF-8."""
    if hasattr(value, "tolist"):  # of torch or numpy
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_utf8(str(key)): _for_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_for_json(entry) for entry in value]
    return value if value is None or isinstance(value, int) else _utf8(str(value))


def _toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of config.toml, one key a line, as `zero train` writes it."""
    text = ""
    for section, values in sections.items():
        text += f"[{section}]\n" + "".join(f"{key} = {_toml_value(value)}\n" for key, value in values.items()) + "\n"
    return text


def _toml_value(value: Any) -> str:
    if hasattr(value, "tolist"):  # of torch or numpy
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, (int, float)):
        return repr(value)
    return json.dumps(_utf8(str(value)), ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML has no surrogates
