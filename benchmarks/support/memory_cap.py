"""A hard memory cap: runs commands in a separate control group (versions 1 and 2 of control groups).

    with MemoryCap(2 << 30) as cap:                # bytes; raises CapError with the reason if no cap can be set
        use = cap.run(["zero", "train", ...], log="train.log", timeout=600)
    use.status, use.num_killed, use.held, use.peak

`held` is the highest number of bytes in pages that the kernel can't reclaim. These are pages of processes and pages
that ranks share, sampled twenty times a second. `peak` is the kernel's own mark. It reaches the cap whenever a large
file is written, because files fill the free memory. Swapping is off inside. A page of a library that other programs
also use is charged to the group that read it first. So libtorch's code costs nothing here on most machines.
"""

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

SAMPLES_A_SECOND = 20


class CapError(Exception):
    """No cap can be set; the text has the reason."""


@dataclass(frozen=True)
class Files:
    """Names of the same files in the two versions of control groups."""

    root: Path
    limit: str
    limit_with_swap: str
    peak: str
    events: str
    private: str  # key in memory.stat


VERSION_1 = Files(
    Path("/sys/fs/cgroup/memory"),
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.oom_control",
    "rss",
)
VERSION_2 = Files(Path("/sys/fs/cgroup"), "memory.max", "memory.swap.max", "memory.peak", "memory.events", "anon")


@dataclass
class Use:
    """Result of a command under the cap; each count of bytes is its highest value."""

    status: int = 0  # exit status; below 0: the signal that ended it
    timed_out: bool = False
    num_killed: int = 0  # processes that the kernel killed for lack of memory
    private: int = 0  # pages of processes
    shared: int = 0  # pages that ranks share
    held: int = 0  # private and shared
    peak: int = 0  # also with files


def numbers(file):
    """{name: value} of the lines "name value" of a file."""
    pairs = (line.split() for line in file.read_text().splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def find_files():
    if (VERSION_1.root / VERSION_1.limit).exists():
        return VERSION_1
    controllers = VERSION_2.root / "cgroup.controllers"
    if not controllers.exists() or "memory" not in controllers.read_text().split():
        raise CapError("no memory controller under /sys/fs/cgroup")
    return VERSION_2


class MemoryCap:
    def __init__(self, num_bytes):
        self.files = find_files()
        self.folder = self.files.root / f"zero_cap_{os.getpid()}"
        try:
            if self.files is VERSION_2:
                (self.files.root / "cgroup.subtree_control").write_text("+memory")
            self.folder.mkdir()
            self.limit(num_bytes)
        except OSError as error:
            if self.folder.exists():
                self.folder.rmdir()
            raise CapError(
                f"{error.filename or self.folder}: {error.strerror} (a cap needs root, and a container "
                "that may create control groups)"
            ) from error

    def limit(self, num_bytes):
        (self.folder / self.files.limit).write_text(str(num_bytes))
        swap = self.folder / self.files.limit_with_swap
        if swap.exists():
            swap.write_text("0" if self.files is VERSION_2 else str(num_bytes))

    def run(self, command, log, timeout):
        """Runs `command` to its end, or for `timeout` seconds, with its output in the file `log`."""
        before = self.num_killed()
        use = Use()
        enter = self.folder / "cgroup.procs"
        with open(log, "wb") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, preexec_fn=lambda: enter.write_text(str(os.getpid()))
            )
            deadline = time.monotonic() + timeout
            try:
                while process.poll() is None and not use.timed_out:
                    self.look(use)
                    time.sleep(1 / SAMPLES_A_SECOND)
                    use.timed_out = time.monotonic() > deadline
            finally:
                self.stop()
                process.wait()
        use.status = process.returncode
        use.num_killed = self.num_killed() - before
        peak = self.folder / self.files.peak  # version 2 has it since Linux 5.19
        use.peak = int(peak.read_text()) if peak.exists() else use.held
        return use

    def look(self, use):
        stat = numbers(self.folder / "memory.stat")
        private, shared = stat[self.files.private], stat["shmem"]
        use.private = max(use.private, private)
        use.shared = max(use.shared, shared)
        use.held = max(use.held, private + shared)

    def stop(self):
        """Kills the command's remaining processes. The kernel may need a moment to remove them."""
        for _ in range(1000):
            pids = [int(pid) for pid in (self.folder / "cgroup.procs").read_text().split()]
            for pid in filter(None, pids):  # 0 is a process of another name space, and means this group to kill()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                return
            time.sleep(0.01)

    def num_killed(self):
        return numbers(self.folder / self.files.events).get("oom_kill", 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.folder.rmdir()
