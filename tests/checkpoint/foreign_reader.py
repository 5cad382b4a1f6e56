#!/usr/bin/env python3
"""Reads a checkpoint as a foreign program would, which has only docs/checkpoint_format.md and no code of zero.cpp.

    foreign_reader.py RUN/checkpoints/step-00000500

Prints one line for each state of each tensor: name, state, shape, and the SHA-256 of its bytes, joined from the slices
of all files. Then one line for each extra: its name, file, shape and SHA-256. Exit status 1, with the reason, if the
folder differs from the document. Checksums of blocks are not verified, because Python's library has no XXH3.
"""

import hashlib
import json
import re
import struct
import sys
from math import prod
from pathlib import Path

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "I64": 8, "F64": 8, "C64": 8}


def require(condition, reason):
    if not condition:
        sys.exit(f"foreign_reader.py: {reason}")


def line(name, where, shape, data):
    print(name, where, "x".join(map(str, shape)) or "-", hashlib.sha256(data).hexdigest())


def manifest_of(folder):
    text = (folder / "manifest.json").read_bytes()
    parts = re.fullmatch(rb'\{"sha256":"([0-9a-f]{64})","manifest":(.*)\}\n', text, re.DOTALL)
    require(parts, "no manifest")
    require(hashlib.sha256(parts[2]).hexdigest() == parts[1].decode(), "another SHA-256 of the manifest")
    manifest = json.loads(parts[2])
    require((manifest["format"], manifest["version"]) == ("zero.cpp checkpoint", 2), "another format or version")
    config_sha256 = hashlib.sha256(manifest["config"].encode()).hexdigest()
    require(manifest["config_sha256"] == config_sha256, "another SHA-256 of the configuration")
    require(manifest["states"][0] == "parameter", "the first state is not the parameter")
    return manifest


def part(data, header, name, dtype, shape, offset):
    """The bytes at the manifest's `offset`, which must agree with the file's own header under `name`."""
    begin, end = header[name]["data_offsets"]
    (header_bytes,) = struct.unpack_from("<Q", data)
    require(
        header[name]["dtype"] == dtype and header[name]["shape"] == shape, f"{name} is something else in the header"
    )
    require(offset == 8 + header_bytes + begin and end - begin == prod(shape) * SIZES[dtype], f"{name} lies elsewhere")
    require(offset + end - begin <= len(data), f"{name} is beyond the file's end")
    return data[offset : offset + end - begin]


def main(folder):
    manifest = manifest_of(folder)
    tensors, states = manifest["tensors"], manifest["states"]
    slices, extras = {}, []
    for file in manifest["files"]:
        data = (folder / file["name"]).read_bytes()
        require(len(data) == file["bytes"], f"{file['name']} has another size")
        require(len(file["xxh3"]) == -(-len(data) // manifest["block_bytes"]), f"{file['name']} has other blocks")
        (header_bytes,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + header_bytes])
        for tensor, state, begin, numel, offset in file["slices"]:
            dtype = tensors[tensor]["dtype"] if state == 0 else "F32"
            found = part(data, header, f"{states[state]}/{tensors[tensor]['name']}", dtype, [numel], offset)
            slices.setdefault((tensor, state), []).append((begin, numel, found))
        for extra in file["extras"]:
            found = part(data, header, extra["name"], extra["dtype"], extra["shape"], extra["offset"])
            require(len(found) == extra["bytes"], f"{extra['name']} has another size")
            extras.append((extra["name"], file["name"], extra["shape"], found))
    for number, tensor in enumerate(tensors):
        for state in range(len(states) if tensor["trainable"] else 1):
            parts = sorted(slices.pop((number, state), []))
            ends = [begin + numel for begin, numel, _ in parts]
            covered_once = [begin for begin, _, _ in parts] + [prod(tensor["shape"])] == [0, *ends]
            require(covered_once, f"{states[state]} of {tensor['name']} is not covered once")
            line(tensor["name"], states[state], tensor["shape"], b"".join(found for _, _, found in parts))
    require(not slices, "slices of no tensor")
    for extra in extras:
        line(*extra)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
