#!/usr/bin/env python3
"""Kills a program that saves checkpoints, or cuts its power, before each call that changes files. Then loads them.

    crash_points.py kill  --saver build/release/tests/zero_fault_saver [--ranks N] [--points N]
    crash_points.py power --saver build/release/tests/zero_fault_saver [--ranks N] [--points N] [--commits [N]]

kill    strace ends the process (SIGKILL) when it enters its k-th call of a kind, for every kind and every k. With
        --ranks each rank is a process, and each in turn is the victim. The other ranks must end by themselves: with an
        error that names the victim, or after their save.
power   Before the k-th call of each rank in turn (ranks are threads here), the ext4 file system of the checkpoints is
        shut down without a flush of its log (EXT4_IOC_SHUTDOWN). The disk then has the content that a power cut would
        leave, and is mounted again. Needs root, ext4 and a loop device. A cache in the disk itself is not lost.
        --commits: also with a flush of the whole file system before an earlier call, for each pair of calls, or with
        N for each call and N earlier calls, spread evenly. A file system flushes by itself every few seconds.

After each crash the newest checkpoint that loads must have the bits of an undisturbed run. It is the last acknowledged
checkpoint, or that which was being saved. Then the saver runs again, must succeed, and must leave no other files.
--points N: only N points, spread evenly; default: all. Prints one line for each way of saving. Exit status 0: all held;
1: some did not; 77 (with the reason): this machine cannot run it.
"""

import argparse
import ctypes
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

LAST_STEP = 2
CUT_STATUS = 9
SURVIVES_S = 30  # half of the ranks' own time limit (zero_fault_saver): no rank may reach it
SKIPPED = 77
CHANGING = {
    "open",
    "openat",
    "openat2",
    "creat",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "fallocate",
    "ftruncate",
    "truncate",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "mkdir",
    "mkdirat",
    "rmdir",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
}
WAYS = {"a folder a step": [], "one path again and again": ["--same"]}


class Skip(Exception):
    pass


def output(command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


def required(command):
    done = output(command)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def saved(text):
    """{step: hash} of the acknowledged saves."""
    return {int(step): digest for step, digest in re.findall(r"^saved (\d+) ([\w-]+)$", text, re.M)}


def calls_of(text, rank):
    return int(re.search(rf"^calls {rank} (\d+)$", text, re.M)[1])


def spread(points, count):
    """At most `count` of the points, including the first and the last."""
    if count is None or count >= len(points):
        return points
    return [points[round(i * (len(points) - 1) / max(1, count - 1))] for i in range(count)]


def problem_of(crashes, acknowledged):
    """The fault of the state after a crash, or None."""
    text = required([crashes.saver, "load", crashes.folder, *crashes.ranks_flags])
    newest = max(acknowledged, default=0)
    loaded = re.search(r"^loaded (\d+) ([\w-]+)$", text, re.M)
    if "damaged" in text:
        return f"a checkpoint is damaged: {text}"
    if loaded is None:
        return None if newest == 0 else f"step {newest} was acknowledged, and nothing is there"
    step, digest = int(loaded[1]), loaded[2]
    if not newest <= step <= newest + 1:
        return f"step {newest} was acknowledged, step {step} is there"
    return None if digest == crashes.hashes[step] else f"step {step} has other bits than it had"


def problem_afterwards(crashes, way):
    """The fault of an undisturbed run of the saver after the crash, or None."""
    if saved(required([crashes.saver, "save", crashes.folder, *way, *crashes.ranks_flags])) != crashes.hashes:
        return "the next run saves something else"
    left = sorted(os.listdir(crashes.folder))
    wanted = [f"step-{1 if way else LAST_STEP:08d}"]
    if left != wanted:
        return f"the next run leaves {left}, not {wanted}"
    return problem_of(crashes, {LAST_STEP: None})


class Kill:
    """Attaches strace to the thread that makes all file calls, so its k-th call is the process's."""

    def __init__(self, saver, folder, ranks):
        if shutil.which("strace") is None:
            raise Skip("no strace on this machine")
        self.saver, self.folder, self.ranks, self.ranks_flags = saver, folder, ranks, ["--ranks", str(ranks)]

    def start(self, way):
        """Starts a process for each rank, which waits before its first call. Returns them, and the threads that make
        the calls."""
        name = f"crash-{os.getpid()}-{secrets.token_hex(4)}"
        processes = []
        for rank in range(self.ranks):
            identity = ["--rank", str(rank), "--run", name] if self.ranks > 1 else []
            processes.append(
                subprocess.Popen(
                    [self.saver, "save", self.folder, "--wait", *way, *self.ranks_flags, *identity],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return processes, [process.stdout.readline().split()[1] for process in processes]

    def traced(self, way, flags, victim, whole=False):
        """(victim's thread, output of all ranks, strace's log, each rank's end) of one run."""
        shutil.rmtree(self.folder, ignore_errors=True)
        log = f"{self.folder}.log"
        processes, threads = self.start(way)
        try:
            attach = ["-f", "-p", str(processes[victim].pid)] if whole else ["-p", threads[victim]]
            strace = subprocess.Popen(["strace", "-o", log, *flags, *attach], stderr=subprocess.PIPE, text=True)
            first = strace.stderr.readline()
            if "attached" not in first:
                strace.wait()
                raise Skip(f"strace cannot attach here: {first.strip()}")
            for process in processes:
                process.stdin.write("go\n")
                process.stdin.flush()
            ends = []
            for process in processes:  # their output fits into a pipe
                text, errors = process.communicate(timeout=SURVIVES_S)
                ends.append((process.returncode, text, errors))
            strace.communicate(timeout=120)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return threads[victim], "".join(text for _, text, _ in ends), Path(log).read_text(), ends

    def points(self, way):
        return [(rank, *call) for rank in range(self.ranks) for call in self.calls(way, rank)]

    def calls(self, way, rank):
        thread, text, log, _ = self.traced(way, ["-y"], rank, whole=True)
        self.hashes = saved(text)
        calls = Counter()
        for line in log.splitlines():
            match = re.match(r"(\d+)\s+(\w+)\((.*)", line)
            if match is None or match[2] not in CHANGING or self.folder not in line:
                continue
            if match[2].startswith("open") and "O_CREAT" not in line and match[1] == thread:
                calls[match[2]] += 1  # changes nothing, but strace counts all calls alike
                continue
            changes = not match[2].startswith("open") or re.search("O_CREAT|O_WRONLY|O_RDWR|O_TRUNC", line)
            if changes and match[1] != thread:
                raise RuntimeError(f"another thread changes files: {line}")
            calls[match[2]] += 1 if match[1] == thread else 0
        return [(name, k) for name in sorted(calls) for k in range(1, calls[name] + 1)]

    def crash(self, way, point):
        victim, name, k = point
        _, text, log, ends = self.traced(
            way, ["-e", f"trace={name}", "-e", f"inject={name}:signal=SIGKILL:when={k}"], victim
        )
        if ends[victim][0] != -9:
            raise RuntimeError(f"call {k} of {name} was not reached: {ends}\n{log}")
        for status, said, errors in ends[:victim] + ends[victim + 1 :]:
            if status == 0 and LAST_STEP in saved(said):
                continue
            if status != 1 or f"rank {victim}" not in errors:
                raise RuntimeError(f"{point}: another rank ended with {status} and said: {errors}")
        return saved(text)

    def afterwards(self):
        return self.folder

    def close(self):
        pass


def mount_unseen():
    """Moves our mounts into a namespace of their own. Another process may copy its namespace at any time. Such a copy
    would keep a file system that was shut down alive after its umount, and the next mount would find it."""
    new_namespace = 0x20000  # CLONE_NEWNS
    if ctypes.CDLL(None, use_errno=True).unshare(new_namespace) != 0:
        raise Skip(f"no mount namespace of our own: {os.strerror(ctypes.get_errno())}")
    required(["mount", "--make-rprivate", "/"])


class Power:
    """A file system in a file. For each cut it is copied, with one checkpoint inside."""

    def __init__(self, saver, folder, ranks, commits):
        if os.geteuid() != 0:
            raise Skip("a power cut needs root, to mount a file system of its own")
        if shutil.which("mkfs.ext4") is None:
            raise Skip("no mkfs.ext4 on this machine")
        mount_unseen()
        self.saver, self.commits, self.mounted = saver, commits, False
        self.ranks, self.ranks_flags = ranks, ["--ranks", str(ranks)]
        self.base, self.image, self.mount = Path(folder + ".base"), Path(folder + ".image"), Path(folder + ".mount")
        self.mount.mkdir()
        self.folder = str(self.mount / "checkpoints")

    def attach(self):
        done = output(["mount", "-o", "loop", self.image, self.mount])
        if done.returncode != 0:
            raise Skip(f"no loop device can be mounted here: {done.stderr.strip()}")
        self.mounted = True

    def detach(self):
        required(["umount", self.mount])
        self.mounted = False

    def save(self, way, *more):
        done = output([self.saver, "save", self.folder, *way, *self.ranks_flags, *more])
        return done.stdout, done.returncode, done.stderr

    def restore(self):
        # A new file, because the previous loop device may still use the old one.
        self.image.unlink(missing_ok=True)
        required(["cp", "--sparse=always", self.base, self.image])

    def points(self, way):
        self.image.unlink(missing_ok=True)
        with open(self.image, "wb") as file:
            file.truncate(self.ranks * 64 << 20)
        required(["mkfs.ext4", "-q", "-F", self.image])
        self.attach()
        text, _, _ = self.save(way)
        self.hashes = saved(text)
        shutil.rmtree(self.folder)
        # The cuts must not destroy the first checkpoint, which exists before the second save.
        text, status, errors = self.save(way, "--cut", self.first_call_of_second(way), self.mount)
        self.detach()
        self.attach()
        problem = problem_of(self, {1: None})
        self.detach()
        if problem is not None or status != CUT_STATUS:
            raise RuntimeError(f"the first checkpoint: {problem}, status {status} {errors}")
        required(["cp", "--sparse=always", self.image, self.base])
        self.attach()
        text, *_ = self.save(way, "--first", "2")
        self.detach()
        cuts = []
        for rank in range(self.ranks):
            calls = calls_of(text, rank)
            cuts += [(rank, k, None) for k in range(1, calls + 2)]
            if self.commits:
                cuts += [(rank, k, j) for k in range(2, calls + 2) for j in spread(range(1, k), self.commits)]
        return cuts

    def first_call_of_second(self, way):
        """The number of rank 0's first call in the second save."""
        text, *_ = self.save(way, "--first", "2")
        second = calls_of(text, 0)
        shutil.rmtree(self.folder)
        text, *_ = self.save(way)
        both = calls_of(text, 0)
        shutil.rmtree(self.folder)
        return str(both - second + 1)

    def crash(self, way, point, *more):
        victim, cut, commit = point
        self.restore()
        self.attach()
        if commit is not None:
            more = ["--commit", str(commit), *more]
        text, status, errors = self.save(
            way, "--first", "2", "--victim", str(victim), "--cut", str(cut), self.mount, *more
        )
        self.detach()
        if status != CUT_STATUS:
            if "shutdown ioctl" in errors:
                raise Skip(f"the file system cannot be shut down: {errors.strip()}")
            raise RuntimeError(f"call {cut} was not reached: status {status}\n{text}{errors}")
        self.attach()
        return {1: self.hashes[1], **saved(text)}

    def afterwards(self):
        if self.mounted:
            self.detach()

    def close(self):
        self.afterwards()


def scratch_place(how):
    """Memory for the images of power cuts, which then need no disk time; None for kills, which need a real disk."""
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and shutil.disk_usage(shm).free > 1 << 30
    return shm if how == "power" and roomy and os.access(shm, os.W_OK) else None


def run(crashes, count):
    failures = 0
    for name, way in WAYS.items():
        points = crashes.points(way)
        chosen = spread(points, count)
        kept = 0
        for point in chosen:
            acknowledged = crashes.crash(way, point)
            problem = problem_of(crashes, acknowledged)
            kept += max(acknowledged, default=0) != LAST_STEP
            problem = problem or problem_afterwards(crashes, way)
            crashes.afterwards()
            if problem is not None:
                failures += 1
                print(f"{name}, {point}: {problem}")
        print(
            f"{name}: {len(chosen)} of {len(points)} points, {kept} of them before the last save was acknowledged",
            flush=True,
        )
    return failures


def unsynced_failures(power):
    """A control: without fsync, a cut right after an acknowledged save must destroy it."""
    failures = 0
    for name, way in WAYS.items():
        points = power.points(way)
        acknowledged = power.crash(
            way, max(point for point in points if point[0] == 0 and point[2] is None), "--no-sync"
        )
        lost = problem_of(power, acknowledged)
        power.afterwards()
        print(f"{name}, without fsync: {lost or 'NOTHING IS LOST, these cuts prove nothing'}", flush=True)
        failures += lost is None
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("how", choices=["kill", "power"])
    parser.add_argument("--saver", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--points", type=int)
    parser.add_argument("--commits", nargs="?", type=int, const=sys.maxsize)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crash-points-", dir=scratch_place(args.how)) as scratch:
        crashes = None
        try:
            folder = f"{scratch}/run"
            crashes = (
                Kill(args.saver, folder, args.ranks)
                if args.how == "kill"
                else Power(args.saver, folder, args.ranks, args.commits)
            )
            failures = run(crashes, args.points)
            if args.how == "power":
                failures += unsynced_failures(crashes)
        except Skip as reason:
            print(f"skipped: {reason}")
            return SKIPPED
        finally:
            if crashes is not None:
                crashes.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
