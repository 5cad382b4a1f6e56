#!/usr/bin/env python3
"""Benchmarks refuse arguments that cannot work before they run, and peers of slow_link.py have DDP's buckets."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.dont_write_bytecode = True

import peer_steps  # noqa: E402
import peer_workloads  # noqa: E402
import python_install  # noqa: E402
import python_steps  # noqa: E402
import slow_link  # noqa: E402
import stalls  # noqa: E402
import stragglers  # noqa: E402
import two_builds  # noqa: E402
from peers import peer_pipeline_rank, peer_rank  # noqa: E402
from support.linked_machines import LinkedMachines  # noqa: E402


class Arguments(unittest.TestCase):
    def parsed(self, benchmark, *words):
        with mock.patch.object(sys, "argv", ["x.py", *words]):
            return benchmark.arguments()

    def refused(self, benchmark, *words):
        """What a benchmark prints when it refuses these words."""
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed), self.assertRaises(SystemExit) as ended:
            self.parsed(benchmark, *words)
        self.assertEqual(ended.exception.code, 2)
        return printed.getvalue()

    def test_too_few_steps_are_refused(self):
        for benchmark, steps, fewest in (
            (peer_steps, 3, 4),
            (python_steps, 3, 4),
            (peer_workloads, 3, 4),
            (stalls, 10, 12),
            (two_builds, 11, 12),
        ):
            extra = ["--before", sys.executable, "--after", sys.executable] if benchmark is two_builds else []
            said = self.refused(benchmark, "--steps", str(steps), *extra)
            self.assertIn(f"--steps {steps}: ", said)
            self.assertIn(f"use {fewest} or more", said)
            self.assertEqual(self.parsed(benchmark, "--steps", str(fewest), *extra).steps, fewest)

    def test_unknown_systems_are_refused(self):
        for benchmark, option, known in (
            (peer_steps, "--systems", "FSDP2"),
            (python_steps, "--systems", "zerocpp 3 arena"),
            (python_steps, "--models", "gpt2"),
            (peer_workloads, "--workloads", "lstm"),
            (slow_link, "--only", "PowerSGD"),
            (stragglers, "--modes", "DDP"),
        ):
            said = self.refused(benchmark, option, "foo")
            self.assertIn(option, said)
            self.assertIn("'foo'", said)
            self.assertIn(known, said)

    def test_python_install_refuses_missing_wheels(self):
        for option, remedy in (("--wheel", "leave the option out"), ("--torch", "folder with wheels")):
            said = self.refused(python_install, option, "/no/such/place")
            self.assertIn(f"{option} /no/such/place: no such ", said)
            self.assertIn(remedy, " ".join(said.split()))
        self.assertEqual(self.parsed(python_install, "--torch", str(ROOT), "--cold").torch, str(ROOT))
        with tempfile.TemporaryDirectory() as folder:
            wheel = Path(folder, "zerocpp-1-py3-none-any.whl")
            wheel.touch()
            self.assertIn("--cold", self.refused(python_install, "--wheel", str(wheel), "--cold"))

    def test_two_builds_finds_commands(self):
        with tempfile.TemporaryDirectory() as folder:
            command = Path(folder, "bin/zero")
            command.parent.mkdir()
            command.touch(0o755)
            Path(folder, "zero").mkdir()
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)
            with mock.patch.dict(os.environ, {"PATH": str(command.parent)}):
                found = self.parsed(two_builds, "--before", "zero", "--after", "bin/zero")
                self.assertIn("no such command", self.refused(two_builds, "--before", "zero2"))
        self.assertEqual((found.before, found.after), (str(command.resolve()), str(command.resolve())))


class Machines(unittest.TestCase):
    def test_slow_link_without_root_is_refused(self):
        with mock.patch("os.geteuid", lambda: 1000), mock.patch("shutil.which", lambda name: name):
            self.assertIn("need root", LinkedMachines.why_not())
        with mock.patch("shutil.which", lambda name: None):
            self.assertIn("apt-get install iproute2", LinkedMachines.why_not())

    def test_namespaces_are_removed_after_a_failure(self):
        calls = []

        def run(command, **_):
            calls.append(command[1:])
            if command[1] == "link":
                raise subprocess.CalledProcessError(2, command)

        with mock.patch("subprocess.run", run), self.assertRaises(subprocess.CalledProcessError):
            with LinkedMachines():
                pass
        added = [command[2] for command in calls if command[:2] == ["netns", "add"]]
        self.assertEqual([command[2] for command in calls if command[:2] == ["netns", "del"]], added)
        self.assertEqual(len(added), 2)


class Reached(Exception):
    pass


class Peers(unittest.TestCase):
    def options(self, system):
        """The options with which a peer makes DDP."""
        made, hooks = [], mock.MagicMock()

        def ddp(model, **options):
            made.append(options)
            return hooks

        torch = types.ModuleType("torch")
        torch.nn = types.SimpleNamespace(parallel=types.SimpleNamespace(DistributedDataParallel=ddp))
        torch.distributed = types.ModuleType("torch.distributed")
        torch.distributed.init_process_group = lambda *_, **__: None
        known = {"torch": torch, "torch.distributed": torch.distributed}
        for name in ("algorithms", "algorithms.ddp_comm_hooks"):
            known[f"torch.distributed.{name}"] = mock.MagicMock()
        with mock.patch.dict(sys.modules, known):
            peer_rank.over_all_ranks(None, system, 2, "")
        return made[0]

    def test_only_powersgd_has_one_bucket(self):
        common = {"gradient_as_bucket_view": True, "static_graph": True, "broadcast_buffers": False}
        self.assertEqual(self.options("ddp"), common)
        self.assertEqual(self.options("powersgd"), {**common, "bucket_cap_mb": 100})

    def test_peers_keep_their_heap(self):
        for rank, arguments in (
            (peer_rank, ["ddp", 2, 1, 2, "", ""]),
            (peer_workloads, ["ddp", "cnn", 4, ""]),
            (peer_pipeline_rank, ["1f1b", 4, 1, 2, "", "", []]),
        ):
            start = rank.main if rank is peer_pipeline_rank else rank.peer_rank
            with mock.patch.object(rank, "keep_heap", side_effect=Reached), self.assertRaises(Reached):
                start(*arguments)


if __name__ == "__main__":
    unittest.main()
