"""Shared memory, open files and processes of ranks, and the part of them that is left after the end of the ranks.

held = left_behind.memory_of("self")         # on a rank, while it trains
left_behind.holders(held)                    # after the end of all ranks: []
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

OURS = ("/memfd:zero.cpp", "/dev/shm/")


def memory_of(process: int | str) -> list[str]:
    """Inode and name of each shared memory that a process maps or has open: memory files of zero.cpp, and /dev/shm."""
    found = set()
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith(OURS):
            found.add(f"{fields[4]} {fields[5]}")
    for file in Path(f"/proc/{process}/fd").iterdir():
        try:
            name = os.readlink(file)
            if name.startswith(OURS):
                found.add(f"{file.stat().st_ino} {name}")
        except FileNotFoundError:  # closed meanwhile
            continue
    return sorted(found)


def files_in(folder: Path) -> list[str]:
    """The files in `folder` that this process has open; also files without a name."""
    start = f"{folder.resolve()}/"
    found = []
    for file in Path("/proc/self/fd").iterdir():
        try:
            name = os.readlink(file)
        except FileNotFoundError:
            continue
        if name.startswith(start):
            found.append(name)
    return found


def processes() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def holders(memory: Collection[str]) -> list[str]:
    """Processes that hold a memory of memory_of(), and names of /dev/shm among it that still exist."""
    found = []
    for process in processes():
        try:
            held = set(memory_of(process)) & set(memory)
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it ended, or belongs to another user
            continue
        found += [f"process {process} holds {name}" for name in sorted(held)]
    names = [name.split(" ", 1)[1] for name in memory]
    return found + [name for name in names if name.startswith("/dev/shm/") and os.path.exists(name)]


def others_of_session() -> list[str]:
    """The other processes of this process's session. Its children are among them, and their children."""
    own, found = os.getsid(0), []
    for process in processes():
        try:
            text = Path(f"/proc/{process}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        name, _, fields = text.rpartition(")")
        if process != os.getpid() and int(fields.split()[3]) == own:
            found.append(f"{name})")
    return found
