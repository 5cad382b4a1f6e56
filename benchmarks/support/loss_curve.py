"""Validation losses of a run, read from its metrics.jsonl, also while the run writes it.

evals = evals_of(folder / "metrics.jsonl")   # [[seconds of training, validation loss, step], ...]
first_below(evals, 2.7)                      # the first entry at or below this loss, or None
"""

import json


def evals_of(metrics):
    """All complete lines so far; the time of evaluations does not count."""
    found, first, evaluating = [], None, 0.0
    for entry in entries_of(metrics):
        if first is None:
            first = entry["t"] - entry.get("step_seconds", 0.0)
        if "val_loss" in entry:
            evaluating += entry["eval_seconds"]
            found.append([entry["t"] - first - evaluating, entry["val_loss"], entry["step"]])
    return found


def steps_of(metrics):
    """The lines of the steps."""
    return [entry for entry in entries_of(metrics) if "step_seconds" in entry]


def entries_of(metrics):
    found = []
    for line in metrics.read_text().splitlines() if metrics.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:  # an incomplete line that the run is writing
            break
    return found


def first_below(evals, loss):
    return next((one for one in evals if one[1] <= loss), None)
