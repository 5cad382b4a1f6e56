#!/usr/bin/env python3
"""Seconds from an empty virtual environment to the first loss with zerocpp, part by part.

    python3 benchmarks/python_install.py --wheel zerocpp-0.1.0-cp311-cp311-linux_x86_64.whl     # torch from pip's index
    python3 benchmarks/python_install.py --wheel FILE --torch WHEELS    # pip download -d WHEELS 'torch==2.11.*'
    python3 benchmarks/python_install.py --cold    # builds the wheel first, without ccache: minutes

The program is the Python example of README.md: five steps of a tiny model, so its seconds are those of imports and of
attach(). --torch names a folder with the wheels of torch and all that it requires, or the URL of an index. pip's cache
counts: a first download takes longer. The goal is at most 60 s from the environment to the first loss with a built
wheel. Needs 8 GB in the folder for temporary files (TMPDIR).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.training_run import ROOT, print_table

sys.path += [str(ROOT / "tools"), str(ROOT / "python/build_backend")]

from build_inputs import torch_series  # noqa: E402
from readme_example import program  # noqa: E402

LOSS = "zerocpp: loss"  # begins the line that the program prints


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--wheel", type=Path, help="wheel of zerocpp; without it one is built from this tree")
    a.add_argument("--torch", help="folder of wheels, or URL of an index; without it pip's own index")
    a.add_argument("--cold", action="store_true", help="build without ccache")
    a.add_argument("--json", help="file for the seconds")
    args = a.parse_args()
    if args.wheel is not None and not (args.wheel.is_file() and args.wheel.suffix == ".whl"):
        a.error(f"--wheel {args.wheel}: no such wheel: name a file zerocpp-*.whl, or leave the option out to build one")
    if args.wheel is not None and args.cold:
        a.error("--cold: nothing is built with --wheel: use only one of the two")
    if args.torch is not None and "://" not in args.torch and not Path(args.torch).is_dir():
        a.error(f"--torch {args.torch}: no such folder: use a folder with wheels, or the URL of an index")
    return args


def environment(**more):
    """The variables of a new user: no packages and libraries of this process, and no ranks."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "RANK", "WORLD_SIZE")
    own = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**own, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **more}


def run(*command, **more):
    """Runs a command. If it fails, prints its output and ends this process."""
    done = subprocess.run(
        list(map(str, command)), env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\npython_install.py: {' '.join(map(str, command))}: status {done.returncode}")


def source_of_torch(torch):
    """The options of pip for the value of --torch."""
    if torch is None:
        return []
    return ["--index-url", torch] if "://" in torch else ["--no-index", "--find-links", torch]


def seconds_to_loss(command, folder):
    """The seconds from the start of the program to the line with the loss, and that line."""
    begin = time.monotonic()
    running = subprocess.Popen(
        list(map(str, command)),
        cwd=folder,
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seconds, said, lines = None, "", []
    for line in running.stdout:
        lines.append(line)
        if LOSS in line and seconds is None:
            seconds, said = time.monotonic() - begin, line.strip()
    if running.wait() != 0 or seconds is None:
        sys.exit(f"{''.join(lines)}\npython_install.py: {' '.join(map(str, command))}: status {running.returncode}")
    return seconds, said


def measure(args, folder):
    """({part: seconds}, the lines with the losses)."""
    parts, lines = {}, []

    def timed(part, *command, **more):
        begin = time.monotonic()
        run(*command, **more)
        parts[part] = time.monotonic() - begin

    user = folder / "user"
    python = user / "bin/python"
    timed("new environment", sys.executable, "-m", "venv", user)
    pip = [python, "-m", "pip", "install"]
    timed(f"install torch {torch_series}", *pip, *source_of_torch(args.torch), f"torch=={torch_series}.*")
    wheel = args.wheel
    if wheel is None:
        # In a new build folder, so nothing of an earlier build is taken, except by ccache.
        more = {"CCACHE_DISABLE": "1"} if args.cold else {}
        build = [
            python,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            f"--config-settings=build-dir={folder}/build",
            "-w",
            folder,
            ROOT,
        ]
        timed("build the wheel", *build, **more)
        (wheel,) = folder.glob("zerocpp-*.whl")
    timed("install the wheel", *pip, "--no-index", wheel)
    train = folder / "train.py"
    train.write_text(program())
    launched = [user / "bin/zero", "launch", "-n", "2", "--", python, train]
    for part, command in (("start to loss, one rank", [python, train]), ("start to loss, two ranks", launched)):
        parts[part], line = seconds_to_loss(command, folder)
        lines.append(line)
    return parts, lines


def main():
    args = arguments()
    if args.wheel is not None:
        args.wheel = args.wheel.resolve()
    with tempfile.TemporaryDirectory() as folder:
        parts, lines = measure(args, Path(folder))
    without = ("build the wheel", "start to loss, two ranks")
    parts["environment to first loss, without the build"] = sum(parts[part] for part in parts if part not in without)
    if args.json:
        Path(args.json).write_text(json.dumps(parts, indent=2) + "\n")
    print("\n".join(lines))
    print_table(["part", "seconds"], [[part, f"{seconds:.1f}"] for part, seconds in parts.items()])


if __name__ == "__main__":
    main()
