#!/usr/bin/env python3
"""Tests of tools/house.py, on texts made for each test. Names are claims, as in the C++ tests."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

import house  # noqa: E402


class House(unittest.TestCase):
    CLASS = """
// class Comment { int not_one; };
class Door : private Frame {
 public:
  explicit Door(int width);
  ~Door();
  Door& operator=(const Door&) = delete;
  void open(int how_far = 1);
  void open() const { if (open_) { shut(); } }
  [[nodiscard]] bool is_open() const { return open_; }
  struct Handle { int x; };
  using Width = int;

 private:
  void creak();
  static constexpr int kMost = 3;
  int width_ = 0, height_{1};
  std::function<void(int)> opened_ = [](int) {};
  bool open_ = false;
};
"""

    def test_classes_count_names_and_members(self):
        self.assertEqual(house.classes({"zero/x/door.h": self.CLASS}), {"Door": (2, 4)})

    def test_structs_count_functions_and_data(self):
        text = (
            "struct Key {\n  int teeth = 2, width{1};\n  bool fits(int door) const;\n"
            "  static constexpr int kMost = 3;\n};\n"
        )
        self.assertEqual(house.classes({"zero/x/key.h": text}, "struct"), {"Key": (1, 2)})
        self.assertEqual(house.classes({"zero/x/key.h": text}), {})

    def test_every_room_has_a_row(self):
        old, new = {"attic": (1, 1, 5), "hall": (2, 2, 1000)}, {"hall": (3, 2, 2000), "cellar": (4, 4, 3000)}
        rows = list(house.rows_of([old, new]))
        self.assertEqual(
            rows,
            [
                ["cellar: files, most in one folder, lines", "", "4, 4, 3,000"],
                ["hall: files, most in one folder, lines", "2, 2, 1,000", "3, 2, 2,000"],
                ["attic: files, most in one folder, lines", "1, 1, 5", ""],
            ],
        )

    def test_equally_large_ones_come_by_name(self):
        self.assertEqual(
            house.largest_of({"Lock": 3, "Door": 3, "Key": 2, "Wall": 9}, 3), [("Wall", 9), ("Door", 3), ("Lock", 3)]
        )

    def test_help_is_the_scripts_own(self):
        script = [sys.executable, ROOT / "tools/house.py"]
        asked = subprocess.run([*script, "--help"], capture_output=True, text=True)
        self.assertEqual((asked.returncode, asked.stderr), (0, ""))
        self.assertIn(house.__doc__, asked.stdout)
        unknown = subprocess.run([*script, "no-such-commit"], capture_output=True, text=True)
        self.assertEqual((unknown.returncode, unknown.stdout), (2, ""))
        self.assertIn("git knows no such commit", unknown.stderr)

    HOUSE = {
        "zero/x/a.h": "// one two\n2\n",
        "zero/x/b.cpp": "1\n",
        "zero/x/y/c.h": "// three, too\n",
        "zero/x/README.md": "1\n",
        "docs/page.md": "// no tic\n",
    }

    def test_rooms_count_files_and_lines(self):
        self.assertEqual(house.rooms(self.HOUSE), {"x": (3, 2, 4)})

    def test_folders_count_their_own_files(self):
        self.assertEqual(house.own_files(self.HOUSE), {"zero/x": 2, "zero/x/y": 1})

    def test_tics_are_a_share_of_words(self):
        self.assertEqual(house.tics(self.HOUSE, (".h",)), "250.0")
        self.assertEqual(house.tics(self.HOUSE, (".md",)), "0.0")

    def test_folders_are_read_like_commits(self):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in self.HOUSE.items():
                file = Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            self.assertEqual(house.texts(folder), self.HOUSE)

    def test_the_tree_has_classes_and_folders(self):
        files = house.texts(None)
        self.assertIn("Engine", house.classes(files))
        self.assertIn("engine", house.rooms(files))


if __name__ == "__main__":
    unittest.main()
