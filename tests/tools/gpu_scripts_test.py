#!/usr/bin/env python3
"""Tests of tools/gpu_check.sh, tools/charts/gpu_tables.py and tools/bundle.sh. They need no GPU: fake commands print
fixed text. Names are claims."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

from tools_test import ROOT, MachineTest

sys.path.insert(0, str(ROOT / "tools/charts"))

import gpu_tables  # noqa: E402


class GpuCheck(unittest.TestCase):
    """tools/gpu_check.sh in a folder like that of a bundle, with a fake command that prints fixed text."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in ["bin", "lib", "tests"]:
            (self.root / name).mkdir()
        for script in ["tools/gpu_check.sh", "benchmarks/gpu_largest.py"]:
            shutil.copy(ROOT / script, self.root)
        self.plain()

    def plain(self, body="""print('{"compute": {"step_ms": 3}}')"""):
        """Writes a fake gpu_plain.py: the output of PyTorch's script, and whether python3 finds a deepspeed."""
        (self.root / "gpu_plain.py").write_text(body + "\n")

    def check(
        self,
        batch,
        gpu="cuda:0 Fake GPU; driver for CUDA 13.0",
        train="exit 0",
        plan="echo no plan >&2; exit 2",
        only=".*",
        **environment,
    ):
        doctor = json.dumps({"checks": [{"check": "GPU", "status": "OK", "found": gpu, "remedy": ""}]})
        self.write(
            "bin/zero",
            f"""case $1 in
  doctor) echo '{doctor}' ;;
  bench) echo '{{"update_best_s": 1}}' ;;
  plan) {plan} ;;
  train) asked="$*"; while [ $# -gt 0 ]; do [ "$1" = --run.dir ] && dir=$2; shift; done
         mkdir -p $dir; echo '{{"losses": [2.5, 2.4], "step_seconds": [1, 1, 1]}}' > $dir/report.json; {train} ;;
esac""",
        )
        ran = subprocess.run(
            [self.root / "gpu_check.sh", str(batch), self.root / "out.json"],
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, "ZERO_CHECK_ONLY": only, **environment},
        )
        return ran, json.loads((self.root / "out.json").read_text())

    def write(self, name, body):
        (self.root / name).write_text("#!/bin/bash\n" + body + "\n")
        (self.root / name).chmod(0o755)

    def test_no_gpu_ends_with_2(self):
        for batch in (1, 2, 3):
            ran, document = self.check(batch, gpu="none: there is no NVIDIA driver")
            self.assertEqual((ran.returncode, ran.stdout), (2, "no GPU here: none: there is no NVIDIA driver\n"))
            self.assertEqual(document["skipped"], "no GPU here: none: there is no NVIDIA driver")
            self.assertEqual((document["batch"], document["gpu"], document["checks"]), (batch, None, []))

    def test_an_unknown_batch_is_an_error(self):
        ran = subprocess.run([self.root / "gpu_check.sh", "4"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("gpu_check.sh 3", ran.stdout)

    def test_each_check_has_outcome_and_figures(self):
        ran, document = self.check(2)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        checks = {check["check"]: check for check in document["checks"]}
        self.assertEqual({check["status"] for check in checks.values()}, {"passed"})
        self.assertEqual(checks["update_adamw_figures"]["figures"], {"update_best_s": 1})
        self.assertEqual(checks["gpt_1b5_figures"]["figures"]["step_seconds_median"], 1)
        self.assertEqual(checks["plain_1b5_figures"]["figures"], {"compute": {"step_ms": 3}})
        tables = gpu_tables.tables_of([document])
        self.assertIn("Batch 2: cuda:0 Fake GPU; driver for CUDA 13.0", tables)
        self.assertIn("| 1.56 billion, batch 8, bf16, activation checkpoints | 1000 | – | 3 |", tables)
        self.assertIn("| gpt_124m | ", tables)
        self.assertNotIn("update_adamw_figures", tables)

    def test_a_failed_check_has_its_reason(self):
        ran, document = self.check(3, train="echo zero train: memory = 2 GiB: cuda:0 is full >&2; exit 2")
        self.assertEqual(ran.returncode, 1)
        failed = [check for check in document["checks"] if check["status"] == "failed"]
        self.assertEqual(
            [check["check"] for check in failed],
            [
                "b3_half_16k",
                "b3_resident",
                "b3_half_4k",
                "moments_on_disk",
                "moments_on_host",
                "half_on_host",
                "resident",
                "in_8_gib",
                "b3_half_64k",
                "b7_capped",
            ],
        )
        self.assertIn("cuda:0 is full", failed[0]["reason"])
        figures = {check["check"] for check in document["checks"] if check["status"] == "passed"}
        self.assertLessEqual({"copies_figures", "collectives_figures"}, figures)

    def test_a_program_without_tests_is_skipped(self):
        self.write("tests/zero_cuda_test", "exit 0")
        self.write(
            "tests/zero_engine_test",
            "printf 'a_test.cpp:7: Skipped\\nno GPU for this\\n[  PASSED  ] 0 tests.\\n[  SKIPPED ] 1 test\\n'",
        )
        ran, document = self.check(1, only="engine|kernels")
        engines = [
            check
            for check in document["checks"]
            if check["status"] == "skipped" and check["reason"] == "no GPU for this"
        ]
        self.assertTrue(engines, document["checks"])

    def test_checks_beyond_the_time_are_skipped(self):
        ran, document = self.check(2, ZERO_CHECK_TOTAL="4")  # less than the five seconds that a check needs
        self.assertEqual(ran.returncode, 0, ran.stderr)
        skipped = {check["check"]: check["reason"] for check in document["checks"] if check["status"] == "skipped"}
        self.assertEqual(skipped["gpt_1b5"], "the 4 s of the batch are over")

    def test_a_stopped_batch_keeps_its_results(self):
        ran, document = self.check(
            3, only="copies|b3_half_16k", train="kill -KILL $(ps -o ppid= -p $PPID)"
        )  # kills the script
        self.assertEqual(ran.returncode, -9)
        self.assertIn("copies_figures", [check["check"] for check in document["checks"]])

    def test_a_check_cut_short_is_skipped(self):
        self.write("tests/zero_cuda_test", "exit 124")  # as if timeout ended it
        ran, document = self.check(1, only="kernels", ZERO_CHECK_TOTAL="149")  # kernels have 150 s
        self.assertEqual(ran.returncode, 0, ran.stderr)
        kernels = next(check for check in document["checks"] if check["check"] == "kernels")
        self.assertEqual(
            (kernels["status"], kernels["reason"]), ("skipped", "not done when the 149 s of the batch were over")
        )

    def test_programs_past_their_limit_are_killed(self):
        self.write("tests/zero_cuda_test", "trap '' TERM; while true; do sleep 1; done")
        ran, document = self.check(1, only="kernels", ZERO_CHECK_SECONDS="1")
        self.assertEqual(self.outcome(document, "kernels")[0], "failed")
        self.assertIn("not done after 1 s", self.outcome(document, "kernels")[1])

    def test_only_named_checks_run(self):
        names = [check["check"] for check in self.check(2, only="update_.*|gpt_1b5")[1]["checks"]]
        self.assertEqual(names[:2], ["gpt_1b5", "gpt_1b5_figures"])
        self.assertTrue(all(name.startswith("update_") for name in names[2:]) and len(names) > 8, names)

    def outcome(self, document, name):
        found = next(check for check in document["checks"] if check["check"] == name)
        return found["status"], found["reason"]

    def test_runs_with_other_bits_are_named(self):
        ran, document = self.check(1, only="gpu1_stage3|host|disk|gpu2_stage[03]|cpu")
        self.assertEqual(
            (self.outcome(document, "same_bits"), self.outcome(document, "losses_agree")),
            (("passed", ""), ("passed", "")),
        )
        other = """case $dir in *gpu2_stage0.run | */disk.run) sed -i s/2.4/2.3/ $dir/report.json ;; esac"""
        ran, document = self.check(1, only="gpu1_stage3|host|disk|gpu2_stage[03]|cpu", train=other)
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(
            self.outcome(document, "same_bits"),
            (
                "failed",
                "disk differs in bits, losses by 1.00e-01 (gpu1_stage3); "
                "gpu2_stage0 differs in bits, losses by 1.00e-01 (gpu2_stage3)",
            ),
        )
        self.assertEqual(self.outcome(document, "losses_agree"), ("passed", ""))
        tables = gpu_tables.tables_of([document])
        for cell in ["| host | gpu1_stage3 | the same bits |", "| disk | gpu1_stage3 | differs, losses by 1.0e-01 |"]:
            self.assertIn(cell, tables)

    def test_different_last_weights_are_named(self):
        other = (
            "hash=1; case $dir in */muon_host.run) hash=2 ;; esac; "
            r'sed -i "s/{/{\"parameters_sha256\": \"$hash\", /" $dir/report.json'
        )
        ran, document = self.check(1, only="(gpu1_|cpu_)muon|muon_host", train=other)
        self.assertEqual(
            self.outcome(document, "same_bits"), ("failed", "muon_host differs in its last weights (gpu1_muon)")
        )

    def test_losses_unlike_the_cpus_fail(self):
        ran, document = self.check(
            1,
            only="(gpu[12]_|cpu_)muon",
            train="""case $dir in */cpu_muon.run) sed -i s/2.4/2.3/ $dir/report.json ;; esac""",
        )
        self.assertEqual(self.outcome(document, "same_bits"), ("skipped", "no two runs to compare"))
        self.assertEqual(
            self.outcome(document, "losses_agree"),
            ("failed", "gpu1_muon is off by 1.00e-01; gpu2_muon is off by 1.00e-01"),
        )

    def test_failed_and_short_runs_are_named(self):
        fails = """case $dir in */host.run) exit 2 ;; */lamb_host.run) sed -i 's/, 2.4//' $dir/report.json ;; esac"""
        ran, document = self.check(1, only="gpu1_stage3|host|lamb.*", train=fails)
        self.assertEqual(self.outcome(document, "host")[0], "failed")
        self.assertEqual(
            self.outcome(document, "same_bits"), ("failed", "lamb_host has another number of losses (lamb)")
        )

    def test_small_runs_have_a_comparison(self):
        text = (ROOT / "tools/gpu_check.sh").read_text()
        tables = re.search(r"^small=.*?(?=^small_runs\(\) \{)", text, re.M | re.S)[0]
        prints = 'printf "%s\\n" "${small_runs[@]}" "$near"'
        read = subprocess.run(
            ["bash", "-c", f"work=/tmp\n{tables}\n{prints}"], capture_output=True, text=True, check=True
        )
        *rows, near = [line.split() for line in read.stdout.splitlines()]
        self.assertGreater(len(rows), 20)
        above = {"-"}
        for name, like, ranks, *arguments in rows:
            self.assertIn(like, above)
            self.assertNotIn(name, above)
            self.assertIn(ranks, "12")
            self.assertEqual(len(arguments) % 2, 0, name)
            above.add(name)
        self.assertEqual(len(near) % 3, 0)
        self.assertLessEqual({*near[::3], *near[1::3]}, above)

    def plan(self, most):
        """A `zero plan` for a GPU with 80 GiB free, which has room for at most `most` layers of 10^9 parameters."""
        (self.root / "plan.py").write_text(f"""import json, sys
layers = int([b for a, b in zip(sys.argv, sys.argv[1:]) if a == "--model.layers"][-1])
open("plans", "a").write(" ".join(sys.argv[1:]) + "\\n")
room = {{"free_bytes": 100 << 30, "lacking_bytes": 0}}
memory = {{"free_bytes": 80 << 30, "fits": layers <= {most}, "lacking_bytes": 0, "host": room, "disk": room}}
print(json.dumps({{"num_parameters": layers * 10**9 + 5, "tiers": {{"device": {{"total": 7}}}}, "memory": memory}}))
""")
        return "python3 plan.py $*"

    def test_the_largest_model_fits_the_plan(self):
        ran, document = self.check(
            3,
            only="largest.*",
            plan=self.plan(7),
            train='case $dir in */largest.run) echo "$asked" > asked ;; esac',
            ZERO_CHECK_SHARE="50",
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = next(check["figures"] for check in document["checks"] if check["check"] == "largest_plan_figures")
        # 16 bytes for each of 10^9 parameters of a layer, in 64 + 50 + 50 GiB.
        self.assertEqual((found["formula_layers"], found["layers"], found["num_parameters"]), (11, 7, 7 * 10**9 + 5))
        self.assertEqual(found["budget_bytes"], {"device": 64 << 30, "host": 50 << 30, "disk": 50 << 30})
        self.assertEqual(self.outcome(document, "largest")[0], "passed")
        asked = (self.root / "asked").read_text()
        self.assertIn(
            "--model.layers 7 --zero.device_memory 65536MiB --zero.host_memory 51200MiB "
            "--zero.disk_memory 51200MiB --zero.disk /",
            asked,
        )
        tables = gpu_tables.tables_of([document])
        for cell in [
            "| GiB of the GPU, host and disk to fill | 64.0 + 50.0 + 50.0 |",
            "| zero plan: billion parameters, layers | 7.00, 7 |",
        ]:
            self.assertIn(cell, tables)

    def test_a_plan_for_half_is_refused(self):
        ran, document = self.check(3, only="largest.*", plan=self.plan(3))
        status, reason = self.outcome(document, "largest_plan")
        self.assertEqual((status, reason[:42]), ("skipped", "gpu_largest.py: not even 5 layers have roo"))
        self.assertNotIn("largest", [check["check"] for check in document["checks"]])

    def test_a_refused_plan_is_a_reason(self):
        self.assertEqual(
            self.outcome(self.check(3, only="largest.*")[1], "largest_plan"), ("skipped", "gpu_largest.py: no plan")
        )

    def test_deepspeed_runs_if_python_finds_it(self):
        finder = self.root / "elsewhere"
        finder.mkdir()
        python = f"""#!/bin/bash
[ "$1" = -c ] && case "$2" in *'"deepspeed"'*) [ -e {finder}/deepspeed ]; exit ;; esac
exec {sys.executable} "$@"
"""
        (finder / "python3").write_text(python)
        (finder / "python3").chmod(0o755)
        path = f"{finder}:{os.environ['PATH']}"
        self.assertEqual(
            self.outcome(self.check(3, only="deepspeed", PATH=path)[1], "deepspeed"),
            ("skipped", "python3 finds no deepspeed: pip install deepspeed==0.19.8"),
        )
        (finder / "deepspeed").touch()
        self.plain(
            """import sys\nprint('{"ds2-offload": {"step_ms": 77, "peak_mib": 9}, """
            """"ds3-offload": {"error": "no compiler"}}')"""
        )
        document = self.check(3, only="deepspeed", PATH=path)[1]
        self.assertEqual(self.outcome(document, "deepspeed"), ("passed", ""))
        tables = gpu_tables.tables_of([document])
        for cell in ["| ds2-offload | 77 | 9 |", "| ds3-offload | no compiler | – |"]:
            self.assertIn(cell, tables)

    def test_an_absent_peer_is_skipped(self):
        self.plain("import sys\nprint('ds2-offload: no compiler')\nsys.exit(77)")
        self.assertEqual(
            self.outcome(self.check(2, only="plain_124m")[1], "plain_124m"), ("skipped", "ds2-offload: no compiler")
        )

    def test_figures_have_prediction_and_tiers(self):
        report = {
            "losses": [3, 2],
            "step_seconds": [9, 9, 1, 1],
            "num_parameters": 100,
            "tokens_per_step": 4096,
            "predicted": {"seconds": 0.9, "bound": "disk"},
            "profile": {"forward_seconds": 0.2, "used_at": [1]},
            "memory_bytes": [{"parameter": 400, "staging": 5}],
            "host_memory_bytes": [{"master": 300}],
            "disk_bytes": [{"moment": 900}],
            "formula": {"state_bytes": 1600.0},
            "link_hidden": [0.75],
            "transfers": [{"disk": {"busy_seconds": 2, "hidden_seconds": 1, "exposed_seconds": 1}}],
        }
        (self.root / "report.json").write_text(json.dumps(report))
        document = self.check(
            3, only="moments_on_disk", train="cp report.json $dir; touch $dir/model.safetensors; echo $dir >> dirs"
        )[1]
        figures = next(check["figures"] for check in document["checks"] if check["check"] == "moments_on_disk_figures")
        self.assertEqual(figures["state_bytes"], {"device": 400, "host": 300, "disk": 900})
        self.assertEqual(
            (figures["predicted"], figures["link_hidden"], figures["disk_hidden"], figures["profile"]),
            ({"seconds": 0.9, "bound": "disk"}, 0.75, 0.5, {"forward_seconds": 0.2}),
        )
        self.assertIn(
            "| moments_on_disk | 4096 | 1000 | 900 | – | 75 % | 50 % | 0.0 + 0.0 + 0.0 | 1.000 |",
            gpu_tables.tables_of([document]),
        )

    def test_plans_have_the_measured_step(self):
        states = {
            "memory_bytes": [{"parameter": 1}],
            "host_memory_bytes": [{"master": 1}],
            "formula": {"state_bytes": 2},
        }
        report = {"losses": [3, 2], "step_seconds": [9, 9, 2, 2], "tokens_per_step": 16384, **states}
        (self.root / "report.json").write_text(json.dumps(report))
        plan = 'echo "$*" >> plans; echo \'{"predicted": {"seconds": 1.5, "bound": "link up"}}\''
        document = self.check(3, only=".*b3_(resident|half_16k)", train="cp report.json $dir", plan=plan)[1]
        figures = next(
            check["figures"] for check in document["checks"] if check["check"] == "foresee_b3_half_16k_figures"
        )
        self.assertEqual(figures, {"seconds": 1.5, "bound": "link up", "step_seconds_median": 2})
        asked = (self.root / "plans").read_text()
        self.assertRegex(asked, "--run.device cuda .*--zero.optimizer {host=0.5} --profile .*/b3_resident.run --json")
        self.assertIn("| b3_half_16k | 16384 | 2000 | – | 1500 |", gpu_tables.tables_of([document]))
        alone = self.check(3, only=".*b3_half_16k", train="cp report.json $dir")[1]
        self.assertNotIn("foresee_b3_half_16k", [check["check"] for check in alone["checks"]])


class GpuTables(unittest.TestCase):
    def test_figures_of_all_batches_are_cells(self):
        def check(name, figures):
            return {"check": name, "status": "passed", "seconds": 1.0, "reason": "", "figures": figures}

        copied = {"bytes": 4e9, "median_s": 0.5, "ratio_median": 0.987}
        sizes = [{"bytes": 1 << 20, "gather": {"ratio_median": 0.5}, "sum": {"ratio_median": 0.25}}]
        muon = {
            "rows": 768,
            "columns": 3072,
            "zero_median_s": 0.0021,
            "zero_flops_per_second": 1.4e13,
            "ratio_flops_per_second": 0.75,
            "ratio_seconds": 0.9,
        }
        speed = [check("update_lion_figures", {"ratio_median": 0.994}), check("muon_768_figures", muon)]
        offload = [
            check("moments_on_host_figures", {"step_seconds_median": 0.172}),
            check("plain_offload_figures", {"offload": {"step_ms": 399.4}, "compute": {"step_ms": 67}}),
            check("copies_figures", {"copies": {"up": copied}, "step_on_disk": copied}),
            check("collectives_figures", {"transports": [{"transport": "shared_memory", "sizes": sizes}]}),
        ]
        about = {"gpu": "a GPU", "time": "now", "built": {"commit": "abc"}}
        tables = gpu_tables.tables_of(
            [{"batch": 2, **about, "checks": speed}, {"batch": 3, **about, "checks": offload}]
        )
        for cell in [
            "| lion | 0.99 |",
            "| 768 x 3072 | 2.10 | 14.0 | 0.75 | 0.90 |",
            "| the same, all of them on the host | 172 | 399 | – |",
            "| up | 8.0 | 0.99 |",
            "| step on disk | 500 ms | 0.99 |",
            "| shared_memory, 1 MiB | 0.50 | 0.25 |",
            "Batch 3: a GPU, now, commit abc",
        ]:
            self.assertIn(cell, tables)

    def test_a_missing_file_is_named(self):
        ran = subprocess.run([ROOT / "tools/charts/gpu_tables.py", "/nowhere.json"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("gpu_tables.py: /nowhere.json: ", ran.stderr)


class Bundle(MachineTest):
    """tools/bundle.sh over builds whose programs and libraries are copies of /bin/true, with a fake ldd."""

    LIBRARIES = ["libzero_app.so", "libzero.so", "libzero_core.so", "libzero_transport_nccl.so", "libzero_plan_clp.so"]
    TESTS = ["zero_engine_test", "zero_torch_test", "zero_parity_test"]

    def setUp(self):
        super().setUp()
        for name in [
            "bin/zero",
            *(f"lib/{name}" for name in self.LIBRARIES),
            *(f"tests/{name}" for name in self.TESTS),
        ]:
            self.elf(f"release/{name}")
        for name in ["lib/libzero_device_cuda.so", "tests/zero_cuda_test", "tests/zero_device_test"]:
            self.elf(f"cuda/{name}")
        self.linked("")

    def elf(self, path):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/true", file)
        return file

    def linked(self, lines):
        """Sets the libraries that ldd prints for each program."""
        self.program("ldd", f"""if [ "$1" = --version ]; then echo ldd 2.36; else printf '{lines}'; fi""")

    def bundle(self, **environment):
        ran = subprocess.run(
            [ROOT / "tools/bundle.sh", "-o", self.root / "out/b.tar.gz", self.root / "release", self.root / "cuda"],
            env={**os.environ, "PATH": self.path(), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        archive = self.root / "out/b.tar.gz"
        if not archive.exists():
            return ran, {}
        with tarfile.open(archive) as tar:
            return ran, {
                member.name.removeprefix("zero-bundle/"): tar.extractfile(member).read()
                for member in tar
                if member.isfile()
            }

    def test_the_archive_is_complete(self):
        ran, files = self.bundle()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(
            set(files),
            {
                "BUILT",
                "bin/zero",
                "gpu_check.sh",
                "gpu_largest.py",
                "gpu_plain.py",
                "lib/libzero_device_cuda.so",
                *(f"lib/{name}" for name in self.LIBRARIES),
                *(f"tests/{name}" for name in [*self.TESTS, "zero_cuda_test", "zero_device_test"]),
            },
        )
        self.assertRegex(ran.stdout, r"b\.tar\.gz: \d+\.\d MiB \(\d+ unpacked\), 16 files, for torch")

    def test_the_archive_names_its_commit(self):
        self.write("torch/version.py", "__version__ = '2.11.0+cu130'\ngit_version = 'abc123'\n")
        self.write("release/CMakeCache.txt", f"ZERO_TORCH:PATH={self.root}/torch\n")
        ran, files = self.bundle()
        built = dict(line.split("=", 1) for line in files["BUILT"].decode().splitlines())
        self.assertEqual((built["torch"], built["torch_git"]), ("2.11.0+cu130", "abc123"))
        self.assertRegex(built["commit"], r"^(unknown|[0-9a-f]{12})$")
        self.assertRegex(built["built_on"], r", glibc 2\.36$")

    def test_linked_libraries_are_in_the_archive(self):
        own = self.write("system/libown.so.1", "own")
        lines = "".join(
            f"{name} => {own} (0x0)\\n"
            for name in [
                "libown.so.1",
                "libc.so.6",
                "libstdc++.so.6",
                "libtorch_cpu.so",
                "libcudart.so.13",
                "libzero.so",
            ]
        )
        self.linked("linux-vdso.so.1 (0x0)\\nlibgone.so => not found\\n" + lines)
        ran, files = self.bundle()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = {name.removeprefix("lib/") for name in files if name.startswith("lib/")}
        self.assertEqual(found - {*self.LIBRARIES, "libzero_device_cuda.so"}, {"libown.so.1"})
        self.assertEqual(files["lib/libown.so.1"], b"own")

    def test_missing_parts_name_their_target(self):
        for path, words in [
            ("release/bin/zero", "--target zero_executable"),
            ("release/lib/libzero_core.so", "libzero_core.so is not there: cmake --build"),
            ("cuda/lib/libzero_device_cuda.so", "configure with -DZERO_CUDA=ON"),
            ("cuda/tests/zero_cuda_test", "zero_cuda_test is neither in"),
            ("release/tests/zero_engine_test", "zero_engine_test is neither in"),
        ]:
            with self.subTest(path):
                (self.root / path).rename(self.root / "aside")
                ran, files = self.bundle()
                self.assertEqual((ran.returncode, files), (2, {}))
                self.assertIn(words, ran.stderr)
                (self.root / "aside").rename(self.root / path)

    def test_what_may_be_missing_is_told(self):
        for path, words in [
            ("release/lib/libzero_plan_clp.so", "without libzero_plan_clp.so, which is not built"),
            ("release/tests/zero_parity_test", "without zero_parity_test, which is not built"),
        ]:
            (self.root / path).unlink()
            ran, files = self.bundle()
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn(words, ran.stdout)
            self.assertNotIn(path.removeprefix("release/"), files)

    def test_the_first_builds_plugin_is_taken(self):
        first = self.elf("release/lib/libzero_device_cuda.so")
        with open(first, "ab") as file:
            file.write(b"first")
        self.program("strip", "exit 0")
        self.assertTrue(self.bundle()[1]["lib/libzero_device_cuda.so"].endswith(b"first"))

    def test_a_large_archive_is_refused(self):
        with open(self.root / "release/lib/libzero_core.so", "ab") as file:
            file.write(os.urandom(3 << 20))
        self.program("strip", "exit 0")
        ran, files = self.bundle(ZERO_BUNDLE_MIB="2")
        self.assertEqual((ran.returncode, files), (2, {}))
        self.assertIn("the archive would have 3 MiB, and 2 is the limit", ran.stderr)
        self.assertEqual(self.bundle(ZERO_BUNDLE_MIB="4")[0].returncode, 0)

    def test_a_missing_build_has_a_remedy(self):
        ran = subprocess.run(
            [ROOT / "tools/bundle.sh", "-o", "/nowhere/bundle.tar.gz", "/nowhere"], capture_output=True, text=True
        )
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--target zero_executable", ran.stderr)

    def test_help_says_what_is_in_it(self):
        ran = subprocess.run([ROOT / "tools/bundle.sh", "--help"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0)
        self.assertIn("bin/zero, lib/", ran.stdout)


if __name__ == "__main__":
    unittest.main()
