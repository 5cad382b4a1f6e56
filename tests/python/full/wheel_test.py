#!/usr/bin/env python3
"""A wheel that pip builds from the sources of this tree trains without the tree.

The Python that runs the test has torch and pip. ZERO_TORCH names the torch to build against, because the environment
of the build has none. Over 20 s: it compiles the library, or takes it from the cache of CCACHE_DIR.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from readme_example import program


def make_environment(folder: Path) -> Path:
    """Makes a new environment that has only pip. Returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin/python"


class Wheel(unittest.TestCase):
    """Builds one wheel for all tests, from the archive of the sources, and installs it."""

    @classmethod
    def setUpClass(cls) -> None:
        if "ZERO_TORCH" not in os.environ:
            raise unittest.SkipTest("ZERO_TORCH does not name a torch to build a wheel against")
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        builder = make_environment(cls.folder / "build")
        try:
            cls.run_in(cls.folder, builder, "-m", "pip", "install", "scikit-build-core<2")
        except AssertionError:
            raise unittest.SkipTest("pip cannot fetch scikit-build-core, which builds wheels") from None
        backend = "import sys; sys.path.insert(0, 'python/build_backend'); import zero_build"
        cls.run_in(ROOT, builder, "-B", "-c", f"{backend}; zero_build.build_sdist({scratch.name!r})")
        (cls.sources,) = cls.folder.glob("zerocpp-*.tar.gz")
        cls.run_in(cls.folder, builder, "-m", "pip", "wheel", "--no-deps", "-w", ".", cls.sources)
        (cls.wheel,) = cls.folder.glob("zerocpp-*.whl")
        cls.python = make_environment(cls.folder / "user")
        packages = sysconfig.get_path("purelib", vars={"base": cls.folder / "user"})
        # The new environment sees the packages of this one, including torch, in another folder than the wheel's.
        Path(packages, "this.pth").write_text(sysconfig.get_path("purelib") + "\n")
        # Without --no-deps, so pip checks that the torch here is the required one.
        cls.run_in(cls.folder, cls.python, "-m", "pip", "install", "--no-index", cls.wheel)

    @classmethod
    def run_in(cls, folder: Path, *command: str | Path) -> str:
        """Returns the output. Raises AssertionError with the output if the command fails."""
        own = {
            key: value
            for key, value in os.environ.items()
            if key not in ("PYTHONPATH", "LD_LIBRARY_PATH", "RANK", "WORLD_SIZE")
        }
        own.update(OMP_NUM_THREADS="1", PIP_DISABLE_PIP_VERSION_CHECK="1")
        ran = subprocess.run(
            command, cwd=folder, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if ran.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: exit status {ran.returncode}\n{ran.stdout}")
        return ran.stdout

    def command(self, *arguments: str | Path) -> str:
        """Runs the installed `zero` in the scratch folder."""
        return self.run_in(self.folder, self.folder / "user/bin/zero", *arguments)

    def exported_by(self, *command: str | Path) -> str:
        """Trains the README's example, and returns a hash of the weights."""
        (self.folder / "train.py").write_text(program())
        weights = self.folder / "model.safetensors"
        weights.unlink(missing_ok=True)
        self.run_in(self.folder, *command)
        return hashlib.sha256(weights.read_bytes()).hexdigest()

    def test_example_trains_with_each_launcher(self) -> None:
        python = self.python
        one = self.exported_by(python, "train.py")
        launched = self.exported_by(self.folder / "user/bin/zero", "launch", "-n", "2", "--", python, "train.py")
        torchrun = self.exported_by(python, "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py")
        self.assertEqual(launched, torchrun)
        self.assertEqual(one, launched)  # all ranks take the same batches, so the mean gradient is the same

    def test_command_trains_and_plans(self) -> None:
        self.assertRegex(self.command("--version"), r"^zero.cpp \d")
        shutil.copytree(ROOT / "examples/shakespeare", self.folder / "examples/shakespeare", dirs_exist_ok=True)
        recipe = "examples/shakespeare/shakespeare.toml"
        trained = self.command(
            "train", recipe, "-n", "2", "--train.steps", "3", "--train.sample", "0", "--train.eval_every", "0"
        )
        self.assertIn("done: runs/shakespeare", trained)
        self.assertIn("stage 3", self.command("plan", recipe, "--world", "4"))

    def test_sources_are_small(self) -> None:
        self.assertLess(self.sources.stat().st_size, 3_000_000)

    def test_solver_of_placements_is_included(self) -> None:
        self.assertIn("libzero_plan_clp.so", {Path(name).name for name in zipfile.ZipFile(self.wheel).namelist()})

    def test_types_are_included(self) -> None:
        self.assertLessEqual({"zerocpp/_C.pyi", "zerocpp/py.typed"}, set(zipfile.ZipFile(self.wheel).namelist()))

    def test_current_folder_has_no_plug_ins(self) -> None:
        # A file that only has the name of a plug-in; the wheel has no plug-in for GPUs.
        file = self.folder / "libzero_device_cuda.so"
        file.touch()
        self.addCleanup(file.unlink)
        doctor = self.run_in(self.folder, "sh", "-c", f"{self.folder}/user/bin/zero doctor || true")
        self.assertIn("libzero_device_cuda.so is not installed", doctor)

    def test_libraries_name_no_folder_here(self) -> None:
        site = Path(
            self.run_in(
                self.folder, self.python, "-c", "import importlib.util as u; print(u.find_spec('zerocpp').origin)"
            )
        ).parent
        files = [site / "bin/zero", *site.rglob("*.so")]
        self.assertGreaterEqual(len(files), 6)
        for file in files:
            dynamic = self.run_in(self.folder, "readelf", "-d", file)
            for paths in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
                self.assertTrue(all(path.startswith("$ORIGIN") for path in paths.split(":")), f"{file.name}: {paths}")


if __name__ == "__main__":
    unittest.main()
