"""Runs several ranks, and slows one of them down.

run([zero, "train", "-n", "2", ...], rank=1, factor=4)    # rank 1 is stopped (SIGSTOP) for 3/4 of each 10 ms
run_beside([[zero, "train", "-n", "1", ...], ...], rank=0, factor=4)    # several runs at once; rank 0 of the last one
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from support.training_run import ROOT

PERIOD = 0.01  # seconds; a slowed rank runs for 1/k of them


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += [int(child), *descendants(int(child))]
        except OSError:
            pass
    return found


def pid_of_rank(launcher, rank):
    """The newest process below the launcher whose environment has this rank, or None."""
    for pid in reversed(descendants(launcher)):
        try:
            if f"RANK={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
        except OSError:
            pass
    return None


def slow_down(launcher, rank, factor, period, over):
    pid = None
    while not over.is_set():
        pid = pid or pid_of_rank(launcher.pid, rank)
        if pid is None:
            time.sleep(period)
            continue
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(period * (factor - 1) / factor)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return
        time.sleep(period / factor)


def end_when(launchers, is_enough, over):
    while not over.wait(0.5):
        if is_enough():
            for launcher in launchers:
                launcher.send_signal(signal.SIGTERM)
            return


def run(command, rank, factor, is_enough=None, period=PERIOD, beside=None):
    """Runs `command`, and beside(launcher, over) in a thread. A SIGTERM ends the command when is_enough() is true.
    Exits with the command's output if it fails."""
    run_beside([command], rank, factor, is_enough, period, beside)


def run_beside(commands, rank, factor, is_enough=None, period=PERIOD, beside=None):
    """Like run(), for several commands at once; the slowed rank is one of the last command."""
    env = dict(os.environ, OMP_NUM_THREADS="1")
    over = threading.Event()
    with contextlib.ExitStack() as files:
        said = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in commands]
        launchers = [
            subprocess.Popen([*map(str, command)], cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=file)
            for command, file in zip(commands, said)
        ]
        threads = (
            [threading.Thread(target=slow_down, args=(launchers[-1], rank, factor, period, over))] if factor > 1 else []
        )
        if is_enough:
            threads.append(threading.Thread(target=end_when, args=(launchers, is_enough, over)))
        if beside:
            threads.append(threading.Thread(target=beside, args=(launchers[-1], over)))
        for thread in threads:
            thread.start()
        for launcher in launchers:
            launcher.wait()
        over.set()
        for thread in threads:
            thread.join()
        was_enough = is_enough and is_enough()
        for command, launcher, file in zip(commands, launchers, said):
            if launcher.returncode != 0 and not was_enough:
                file.seek(0)
                sys.exit(f"{' '.join(map(str, command))} ended with {launcher.returncode}:\n{file.read()}")
