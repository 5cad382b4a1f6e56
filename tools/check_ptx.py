#!/usr/bin/env python3
"""Proves that the arithmetic of PTX is that of the host: every operation rounded on its own, to the nearest.

    tools/check_ptx.py FILE.ptx...

Instructions on f16, bf16, f32 and f64 values may move, compare, choose and convert. Only these may compute: add, sub,
mul, div and sqrt with the suffix .rn, and neg, abs, min and max. The script prints any other instruction with its line.
Such are a fused multiply-add (fma, mad), an approximation (.approx, .full, ex2, rsqrt), another rounding, or a flush of
subnormals to zero (.ftz). One kernel, the matrix product (FUSED), may have fused multiply-adds of f32 with .rn, because
its sums on the host also have them. Exit status: 0 all hold, 1 some do not, or a file has no arithmetic at all.
"""

import re
import sys
from pathlib import Path

INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z]\w*)((?:\.\w+(?:::\w+)*)*)\s")
FLOAT = {"f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "f32x2"}
FUNCTION = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?(\w+)")
# A part of the name of the kernel, as C++ mangles it.
FUSED = "21matrix_product_kernel"
ROUNDED = {"add", "sub", "mul", "div", "sqrt"}
EXACT = {
    "mov",
    "ld",
    "ldu",
    "st",
    "setp",
    "set",
    "selp",
    "slct",
    "neg",
    "abs",
    "min",
    "max",
    "copysign",
    "testp",
    "shfl",
}


def fault(name, modifiers, function):
    """The reason why an instruction on floats may give other bits than the host's, or None."""
    if "ftz" in modifiers:
        return "subnormals become zeros"
    if name == "fma" and FUSED in function:
        return None if modifiers == ["rn", "f32"] else "not rounded to the nearest"
    if name in EXACT:
        return None
    if name in ROUNDED:
        return (
            None
            if "rn" in modifiers and "approx" not in modifiers and "full" not in modifiers
            else "not rounded to the nearest"
        )
    if name == "cvt":
        kinds = [m for m in modifiers if re.fullmatch(r"[suf]\d+|bf16", m)]
        widens = kinds[:2] in (["f64", "f32"], ["f32", "f16"], ["f32", "bf16"])
        return None if widens or "rn" in modifiers else "not rounded to the nearest"
    return "not an operation with one rounding"


def check(text, name):
    """The lines to print about one file, and the number of instructions that compute."""
    faults, computing, function = [], 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if begins := FUNCTION.search(line):
            function = begins[1]
        match = INSTRUCTION.match(line)
        if not match:
            continue
        modifiers = match[2].split(".")[1:]
        if not FLOAT & set(modifiers):
            continue
        computing += match[1] in ROUNDED
        if reason := fault(match[1], modifiers, function):
            faults.append(f"{name}:{number}: {reason}: {line.strip()}")
    if computing == 0:
        faults.append(f"{name}:1: no arithmetic on floats was found")
    return faults, computing


def main(arguments):
    if not arguments:
        print(__doc__)
        return 2
    faults, computing = [], 0
    for argument in arguments:
        found, count = check(Path(argument).read_text(encoding="utf-8"), argument)
        faults += found
        computing += count
    for line in faults:
        print(line)
    print(
        f"{len(faults)} instructions may give other bits."
        if faults
        else f"{computing} instructions compute, each with one rounding to the nearest."
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
