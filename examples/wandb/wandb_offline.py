#!/usr/bin/env python3
"""Writes runs of `zero train` as offline runs of Weights & Biases. Sends nothing.

    pip install wandb
    python3 examples/wandb/wandb_offline.py runs/mine [runs/other ...] [--project zero] [--dir .]
    wandb sync wandb/offline-run-*          # uploads them, if you want that

A run has its configuration, and the tags that its TensorBoard files would have. A step that a run repeated, after a
resume or a rewind, counts once, with its last values. Exit status 1: a folder holds no run.
"""

import argparse
import json
import os
import pathlib
import sys
import tomllib

STEP = {
    "loss": "train/loss",
    "lr": "train/lr",
    "grad_norm": "train/grad_norm",
    "loss_scale": "train/loss_scale",
    "tokens_per_second": "speed/tokens_per_second",
    "rows_per_second": "speed/rows_per_second",
    "step_seconds": "speed/step_seconds",
    "val_loss": "validation/val_loss",
    "val_accuracy": "validation/val_accuracy",
    "val_perplexity": "validation/val_perplexity",
    "val_loss_ema": "validation/val_loss_ema",
    "val_accuracy_ema": "validation/val_accuracy_ema",
    "val_perplexity_ema": "validation/val_perplexity_ema",
    "host_bytes": "memory/host_bytes",
    "disk_bytes": "memory/disk_bytes",
}


def rows_of(run):
    """The values of a run by tag, for each step in order."""
    rows = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        try:
            measured = json.loads(line)
        except json.JSONDecodeError:
            continue  # the last line of a run that was killed
        step = measured.get("step")
        if step is None or "event" in measured:  # an event has the loss of another step
            continue
        if "loss" in measured:  # a repeated step removes itself and all later ones
            rows = {earlier: row for earlier, row in rows.items() if earlier < step}
        row = rows.setdefault(step, {})
        row.update({tag: measured[key] for key, tag in STEP.items() if key in measured})
        if "memory_bytes" in measured:
            row["memory/device_bytes"] = measured["memory_bytes"]["total"]
    return sorted(rows.items())


def write(run, project, folder):
    import wandb

    os.environ.setdefault("WANDB_SILENT", "true")
    config = tomllib.loads((run / "config.toml").read_text())
    made = wandb.init(mode="offline", project=project, name=run.name, config=config, dir=folder)
    rows = rows_of(run)
    for step, row in rows:
        made.log(row, step=step)
    made.finish()
    print(f"{run}: {len(rows)} steps in {pathlib.Path(made.dir).parent}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN")
    parser.add_argument("--project", default="zero")
    parser.add_argument("--dir", default=".", help="folder in which the folder wandb/ is created")
    arguments = parser.parse_args()
    for run in arguments.runs:
        for needed in ("metrics.jsonl", "config.toml"):
            if not (run / needed).is_file():
                sys.exit(f"{run}: no {needed}: this folder holds no run")
    for run in arguments.runs:
        write(run, arguments.project, arguments.dir)


if __name__ == "__main__":
    main()
