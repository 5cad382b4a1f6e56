#!/usr/bin/env python3
"""Tests of tools/check_layers.py, on small trees made for each test. Names are claims, as in the C++ tests."""

import subprocess
import sys
import unittest

from tools_test import ROOT, TreeTest

import check_layers  # noqa: E402  (tools_test has its folder on the path)


class CheckLayers(TreeTest):
    def violations(self):
        return check_layers.check(self.root)

    def assert_one(self, start, word):
        violations = self.violations()
        self.assertEqual(len(violations), 1, violations)
        self.assertTrue(violations[0].startswith(start), violations[0])
        self.assertIn(word, violations[0])

    def test_includes_may_go_down(self):
        self.write(
            "zero/engine/engine.h",
            '#include "zero/comm/work.h"\n#include "zero/base/error/check.h"\n#include "zero/engine/x.h"\n',
        )
        self.write("app/cli/plan.cpp", '#include "app/config/load.h"\n#include "zero/torch/attach.h"\n')
        self.assertEqual(self.violations(), [])

    def test_includes_that_go_up_are_named(self):
        self.write("zero/plan/units/unit.h", '#pragma once\n\n#include "zero/engine/engine.h"\n')
        self.assert_one("zero/plan/units/unit.h:3: floor", "above")

    def test_rooms_of_one_floor_are_separate(self):
        self.write("zero/memory/account/buffer.h", "# include <zero/optim/rule.h>\n")
        self.assert_one("zero/memory/account/buffer.h:1: floor", "both on floor 2")

    def test_launch_and_data_are_separate(self):
        self.write("app/launch/launch.cpp", '#include "app/data/text.h"\n')
        self.write("app/config/options.h", '#include "app/launch/launch.h"\n')
        self.assert_one("app/launch/launch.cpp:1: floor", "both on floor 0")

    def test_the_library_includes_no_program(self):
        self.write("zero/torch/attach.cpp", '#include "app/report/report.h"\n')
        self.assert_one("zero/torch/attach.cpp:1: tree", "does not include app/")

    def test_only_plugins_include_plugins(self):
        self.write("plugins/gloo/gloo.cpp", '#include "zero/comm/work.h"\n#include "app/launch/launch.h"\n')
        self.assert_one("plugins/gloo/gloo.cpp:2: tree", "does not include app/")
        self.write("plugins/gloo/gloo.cpp", "")
        self.write("zero/comm/open.cpp", '#include "plugins/gloo/mesh.h"\n')
        self.assert_one("zero/comm/open.cpp:1: tree", "does not include plugins/")

    def test_inner_rooms_form_no_cycle(self):
        self.write("zero/engine/engine.h", '#include "zero/engine/states/array.h"\n')
        self.write("zero/engine/states/array.h", '#include "zero/engine/wire/unit.h"\n')
        self.assertEqual(check_layers.check_cycles(self.root), [])
        self.write("zero/engine/wire/unit.h", '\n#include "zero/engine/engine.h"\n')
        cycle = check_layers.check_cycles(self.root)
        self.assertEqual(len(cycle), 3, cycle)
        self.assertIn(
            "zero/engine/wire/unit.h:2: cycle: zero/engine/wire includes zero/engine, which leads back to it", cycle
        )

    def test_a_relative_path_hides_nothing(self):
        self.write("zero/engine/engine.h")
        self.write("zero/plan/units/unit.h", '#include "../../engine/engine.h"\n')
        self.assert_one("zero/plan/units/unit.h:1: floor", "engine")

    def test_neighbours_may_be_included_by_name(self):
        self.write("zero/optim/kernel.inc")
        self.write("zero/optim/adamw.cpp", '#include "kernel.inc"\n')
        self.assertEqual(self.violations(), [])

    def test_the_core_knows_nothing_of_torch(self):
        for number, header in enumerate(["torch/torch.h", "ATen/ATen.h", "c10/core/Device.h"]):
            self.write(f"app/data/file{number}.cpp", f"#include <{header}>\n")
        violations = self.violations()
        self.assertEqual(len(violations), 3)
        self.assertTrue(all(": torch: app/data" in line for line in violations), violations)

    def test_rooms_above_the_core_use_torch(self):
        self.write("app/models/gpt2.h", "#include <torch/nn/module.h>\n")
        self.assertEqual(self.violations(), [])

    def test_a_comment_is_no_include(self):
        self.write("zero/base/error/error.h", '// #include "app/cli/main.h"\n')
        self.assertEqual(self.violations(), [])

    def test_nothing_includes_the_facade(self):
        self.write("include/zero/zero.h", '#include "zero/torch/attach.h"\n')
        self.assertEqual(self.violations(), [])
        self.write("app/cli/main.cpp", '#include "zero/zero.h"\n')
        self.assert_one("app/cli/main.cpp:1: facade", "users")

    def test_a_room_without_floor_is_refused(self):
        self.write("zero/extras/thing.h")
        self.assert_one("zero/extras/thing.h:1: folder", "no floor")

    def test_includes_of_unknown_rooms_are_refused(self):
        self.write("app/cli/main.cpp", '#include "zero/extras/thing.h"\n')
        self.assert_one("app/cli/main.cpp:1: folder", "no floor")

    def test_tests_mirror_the_source(self):
        self.write("zero/plan/units/unit.h")
        self.write("tests/plan/units/unit_test.cpp")
        for name in check_layers.WHOLE_TESTS:
            self.write(f"tests/{name}/some_test.cpp")
        self.assertEqual(self.violations(), [])
        self.write("tests/other/some_test.cpp")
        self.assert_one("tests/other:1: folder", "has this name")

    def test_the_exit_status_tells(self):
        self.write("zero/plan/units/unit.h", '// Unit: a unit.\n#include "zero/base/error/check.h"\n')
        self.write("zero/plan/README.md", "# plan\n\nFloor 1.\n\n- `units/unit.h`: a unit\n- `units/`: units\n")
        self.write("zero/base/README.md", "# base\n\nFloor 0.\n\n- `error/check.h`: a check\n- `error/`: errors\n")
        self.write("zero/base/error/check.h", "// check(): a check.\nvoid check();\n")
        script = [sys.executable, ROOT / "tools/check_layers.py", self.root]
        self.assertEqual(subprocess.run(script, stdout=subprocess.DEVNULL).returncode, 0)
        self.write("zero/base/error/check.h", '// Check: a check.\n#include "zero/plan/units/unit.h"\n')
        result = subprocess.run(script, stdout=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("zero/base/error/check.h:2: floor", result.stdout)


class CheckUserHeaders(TreeTest):
    def test_a_distant_seam_is_found(self):
        self.write("include/zero/zero.h", '#include "zero/torch/attach.h"\n')
        self.write("zero/torch/attach.h", '#include "zero/engine/options/options.h"\n')
        self.assertEqual(check_layers.check_user_headers(self.root), [])
        for seam, shown in (
            ('#include "zero/memory/disk/disk_seam.h"', "zero/memory/disk/disk_seam.h"),
            ("class Link;", "Link"),
        ):
            self.write("zero/engine/options/options.h", f'#include "zero/base/numbers/tier.h"\n{seam}\n')
            (fault,) = check_layers.check_user_headers(self.root)
            self.assertRegex(fault, f"^zero/engine/options/options.h:2: user.*{shown}")

    def test_each_header_of_the_inside_exists(self):  # otherwise a renamed header would no longer be refused
        for name in check_layers.INSIDE:
            self.assertTrue((ROOT / name).is_file(), name)


class CheckBytes(TreeTest):
    LIST = "tools/state_bytes.txt"

    def test_uncounted_place_is_refused(self):
        self.write(
            "zero/engine/mover.cpp",
            "// std::memcpy(a, b, 1);\nstd::memcpy(a, b, 1);\nauto* in = reinterpret_cast<const In*>(from);\n",
        )
        self.write("zero/comm/mover.cpp", "std::memcpy(a, b, 1);\n")
        (fault,) = check_layers.check_bytes(self.root)
        self.assertTrue(fault.startswith("zero/engine/mover.cpp:1: bytes: 2 places") and "counts 0" in fault, fault)
        self.write(self.LIST, "# FILE | PLACES\n\nengine/mover.cpp   | 2  | device | copy\n")
        self.assertEqual(check_layers.check_bytes(self.root), [])

    def test_place_in_an_inner_folder_counts(self):
        self.write("zero/engine/states/mover.cpp", "std::memcpy(a, b, 1);\n")
        (fault,) = check_layers.check_bytes(self.root)
        self.assertTrue(fault.startswith("zero/engine/states/mover.cpp:1: bytes: 1 places"), fault)

    def test_removed_place_leaves_the_list(self):
        self.write("zero/optim/rule.h", "int count;\n")
        self.write(self.LIST, "optim/rule.h | 1 | device | kernel\n")
        (fault,) = check_layers.check_bytes(self.root)
        self.assertIn("0 places", fault)

    def test_file_listed_twice_is_refused(self):
        self.write("zero/optim/rule.h", "std::memcpy(a, b, 1);\n")
        self.write(self.LIST, "optim/rule.h | 1 | device | kernel\noptim/rule.h | 1 | host | same\n")
        self.assertEqual(
            check_layers.check_bytes(self.root), ["tools/state_bytes.txt:2: bytes: optim/rule.h is listed twice"]
        )

    def test_line_without_an_answer_is_refused(self):
        self.write("zero/optim/rule.h", "std::memcpy(a, b, 1);\n")
        self.write(self.LIST, "optim/rule.h | 1 | device |  \n")
        self.assertIn("tools/state_bytes.txt:1: bytes: a line is", check_layers.check_bytes(self.root)[0])


class CheckReadmes(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("zero/plan/units/unit.h")

    def assert_fault(self, word):
        faults = check_layers.check_readmes(self.root)
        self.assertEqual(len(faults), 1, faults)
        self.assertIn(word, faults[0])

    def test_a_room_without_readme_is_refused(self):
        self.assert_fault("zero/plan/README.md:1: readme")

    def test_a_readme_gives_its_floor(self):
        self.write("zero/plan/README.md", "# plan\n\nFloor 2.\n\n- `units/unit.h`: a unit\n- `units/`: units\n")
        self.assert_fault("'Floor 1.'")

    def test_files_in_a_readme_exist(self):
        self.write(
            "zero/plan/README.md",
            "# plan\n\nFloor 1.\n\n- `units/unit.h`: a unit\n- `units/`: units\n- `gone.h`: was moved\n",
        )
        self.assert_fault("there is no gone.h")

    def test_a_readme_lists_the_inner_rooms(self):
        self.write("zero/plan/README.md", "# plan\n\nFloor 1.\n\n- `units/unit.h`: a unit\n")
        self.assert_fault("inner room units")

    def test_a_readme_names_a_file(self):
        self.write("zero/plan/README.md", "# plan\n\nFloor 1.\n\n- `units/`: units\n")
        self.assert_fault("names no file")

    def test_a_readme_fits_on_one_screen(self):
        self.write(
            "zero/plan/README.md",
            "# plan\n\nFloor 1.\n\n- `units/unit.h`: a unit\n- `units/`: units\n" + "and more\n" * 35,
        )
        self.assert_fault("41 lines")

    def test_a_right_one_is_let_through(self):
        self.write(
            "zero/plan/README.md", "# plan\n\nFloor 1. Uses base.\n\n- `units/unit.h`: a unit\n- `units/`: units\n"
        )
        self.assertEqual(check_layers.check_readmes(self.root), [])


class CheckNames(TreeTest):
    def faults(self, first_line, code="class RunLog {};"):
        self.write("app/train/run/run_log.h", f"{first_line}\n#pragma once\n{code}\n")
        return check_layers.check_names(self.root)

    def test_a_header_begins_with_its_name(self):
        for first in (
            "// RunLog: the lines of a run.",
            "// Run logs: the lines of runs.",
            "// Run::Log: a part of Run.",
        ):
            self.assertEqual(self.faults(first), [], first)
        for first in (
            "// The lines of a run.",
            "#pragma once",
            "// RunLog:",
            "// " + "Many words " * 6 + ": the lines.",
        ):
            (fault,) = self.faults(first)
            self.assertTrue(fault.startswith("app/train/run/run_log.h:1: name: a header begins with"), fault)

    def test_a_name_is_in_its_header(self):
        self.assertEqual(self.faults("// open_log(): opens it.", "RunLog open_log();"), [])
        for first in ("// open_log(), close_log(): the log.", "// TrainLog: the lines of a run."):
            (fault,) = self.faults(first, "RunLog open_log();  // close_log, TrainLog")
            self.assertRegex(fault, "begins with (close_log|TrainLog), which is not in this header")


class CheckPicture(TreeTest):
    def test_the_picture_follows_the_table(self):
        (fault,) = check_layers.check_picture(self.root)
        self.assertIn("--draw", fault)
        self.write(
            "docs/architecture.svg", check_layers.draw_rooms.picture(check_layers.FLOORS, check_layers.WITH_TORCH)
        )
        self.assertEqual(check_layers.check_picture(self.root), [])


if __name__ == "__main__":
    unittest.main()
