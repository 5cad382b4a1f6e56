#!/usr/bin/env python3
"""Runs DeepSpeed's own tests of ZeRO on zerocpp.deepspeed, on CPUs.

    tools/peers/deepspeed_suite.py CHECKOUT                                 # one case of each test
    tools/peers/deepspeed_suite.py CHECKOUT unit/v1/zero/test_zero.py --cases 0  # all cases of one file
    tools/peers/deepspeed_suite.py CHECKOUT --theirs                        # DeepSpeed itself, not zerocpp.deepspeed

CHECKOUT: a clone of DeepSpeed with its tests. The Python that runs this needs zerocpp, pytest and DeepSpeed's imports
(hjson, psutil, pydantic, einops, ninja, py-cpuinfo, msgpack, tqdm). tools/peers/deepspeed_suite.toml lists the files of
tests, the tests that do not apply, and the tests that do not pass, each with its reason.

A test passes if no case fails and at least one passes; other cases may be skipped. "elsewhere" means that
it passes, but calls nothing of zerocpp.deepspeed. The exit status is 1 if a test fails that the list does not name.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parent
OUTCOMES = ("passed", "failed", "skipped")


def read_list(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


def reason_of(test: str, rows: dict[str, str]) -> str | None:
    """The reason of the first pattern that matches the test or its file; brackets in patterns are literal."""
    for pattern, reason in rows.items():
        if fnmatch.fnmatchcase(test, pattern.replace("[", "[[]")):
            return reason
    return None


def run_all(
    checkout: Path, arguments: argparse.Namespace, folder: Path, listed: dict[str, Any]
) -> list[dict[str, Any]]:
    """Runs pytest until each chosen case has a result. A test that ends the process counts as a failure."""
    results, begun = folder / "results.jsonl", folder / "begun"
    plan = folder / "plan.json"
    tests = checkout / "tests"
    given = [str(Path(part).resolve()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    path = os.pathsep.join([str(TOOLS), str(tests), str(checkout), *given])
    environment = dict(os.environ, PYTHONPATH=path, ZERO_SUITE_PLAN=str(plan), DS_ACCELERATOR="cpu", LOCAL_SIZE="8")
    environment.update(DS_IGNORE_CUDA_DETECTION="1", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", GLOO_SOCKET_IFNAME="lo")
    found: list[dict[str, Any]] = []
    while True:
        known = {row["case"] for row in found}
        plan.write_text(json.dumps({
            "done": sorted(known), "cases": arguments.cases, "limit": arguments.limit, "ranks": arguments.ranks,
            "results": str(results), "begun": str(begun), "theirs": arguments.theirs, "internal": listed["internal"],
            "fp32": listed["fp32"],
        }))  # fmt: skip
        begun.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-p", "deepspeed_plugin", "-q", "--no-header", "--tb=short"]
        files = arguments.files or listed["files"]
        chosen = ["-k", " and ".join(f"({text})" for text in arguments.k)] if arguments.k else []
        with (folder / "pytest.log").open("a") as log:
            ended = subprocess.run([*command, "-p", "no:cacheprovider", *chosen, *files],
                                   cwd=tests, env=environment, check=False, stdout=log, stderr=log)  # fmt: skip
        found = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        if ended.returncode in (0, 1, 5) and found:
            return found
        case = begun.read_text() if begun.exists() else ""
        if not case or case in {row["case"] for row in found}:
            raise SystemExit(f"pytest ended with {ended.returncode}:\n{(folder / 'pytest.log').read_text()[-3000:]}")
        ending = {"case": case, "outcome": "failed", "text": f"pytest ended with {ended.returncode}", "reached": True}
        with results.open("a") as file:
            file.write(json.dumps(ending) + "\n")
        found.append(ending)


def verdict(rows: list[dict[str, Any]]) -> str:
    """The outcome of a test from its cases: failed if one failed, skipped if all were skipped."""
    outcomes = {row["outcome"] for row in rows}
    return "failed" if "failed" in outcomes else "passed" if "passed" in outcomes else "skipped"


def report(found: list[dict[str, Any]], listed: dict[str, Any], verbose: bool) -> int:
    by_test: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in found:
        by_test[row["case"].split("[")[0]].append(row)
    by_file: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    lines, unlisted = [], 0
    for test, rows in by_test.items():
        outcome = verdict(rows)
        if outcome == "passed" and not any(row["reached"] for row in rows if row["outcome"] == "passed"):
            outcome = "elsewhere"
        file = test.split("::")[0]
        by_file[file][outcome] += 1
        bad = [row for row in rows if row["outcome"] == "failed"]
        passed = sum(row["outcome"] == "passed" for row in rows)
        if outcome in ("failed", "skipped"):
            row = (bad or rows)[0]
            why = reason_of(row["case"], listed["differs"]) or reason_of(test, listed["differs"])
            unlisted += outcome == "failed" and why is None
            text = why or row["text"].strip().splitlines()[-1][:160]
            lines.append(f"{outcome:8} {test}  ({passed} of {len(rows)} cases)\n         {'' if why else '! '}{text}")
            if verbose and outcome == "failed" and why is None:
                lines += [f"    {row['case']}", *("    " + line for line in row["text"].splitlines()[-30:])]
    total: collections.Counter[str] = collections.Counter()
    width = max(map(len, by_file), default=4)
    columns = ("passed", "failed", "skipped", "elsewhere")
    print(f"{'file':{width}}" + "".join(f"{column:>11}" for column in columns))
    for file, counts in sorted(by_file.items()):
        total.update(counts)
        print(f"{file:{width}}" + "".join(f"{counts[column]:11}" for column in columns))
    print(f"{'all':{width}}" + "".join(f"{total[column]:11}" for column in columns) + "\n")
    print("\n".join(lines))
    cases = collections.Counter(row["outcome"] for row in found)
    applicable = total["passed"] + total["failed"] + total["skipped"]
    print(f"\n{total['passed']} of {applicable} tests pass; cases: " + ", ".join(f"{cases[o]} {o}" for o in OUTCOMES))
    return 1 if unlisted else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="clone of DeepSpeed")
    parser.add_argument("files", nargs="*", help="files or tests, as pytest takes them; default: those of the list")
    parser.add_argument("--cases", type=int, default=1, help="most cases of each test, evenly spread; 0: all")
    parser.add_argument("--ranks", type=int, default=2, help="most ranks of a case")
    parser.add_argument("--limit", type=int, default=120, help="seconds of one case")
    parser.add_argument("--theirs", action="store_true", help="run DeepSpeed itself")
    parser.add_argument("--list", type=Path, default=TOOLS / "deepspeed_suite.toml", help="list of tests and reasons")
    parser.add_argument("--results", type=Path, help="file for the result of each case, as JSON lines")
    parser.add_argument(
        "-k", action="append", default=[], help="expression that chooses tests, as pytest's -k; several: all must hold"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print tracebacks of failures")
    arguments = parser.parse_intermixed_args()
    checkout = arguments.checkout.resolve()
    if not (checkout / "tests/unit").is_dir() or not (checkout / "deepspeed").is_dir():
        print(f"CHECKOUT = {arguments.checkout}: it lacks deepspeed or tests/unit\n"
              "  Name a clone of DeepSpeed", file=sys.stderr)  # fmt: skip
        return 2
    listed = read_list(arguments.list)
    with tempfile.TemporaryDirectory() as folder:
        found = run_all(checkout, arguments, Path(folder), listed)
    if arguments.results:
        arguments.results.write_text("".join(json.dumps(row) + "\n" for row in found))
    return report(found, listed, arguments.verbose)


if __name__ == "__main__":
    sys.exit(main())
