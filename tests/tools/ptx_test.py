#!/usr/bin/env python3
"""Tests of tools/check_ptx.py, on lines of PTX as nvcc writes them."""

import unittest

from tools_test import ROOT  # noqa: F401  (it has tools/ on the path)

import check_ptx  # noqa: E402

ROUNDED = "\tmul.rn.f32 \t%f8, %f7, %f1;\n\t@%p1 add.rn.f64 \t%fd1, %fd2, %fd3;\n"


class CheckPtx(unittest.TestCase):
    def faults(self, line):
        return check_ptx.check(ROUNDED + line + "\n", "x.ptx")[0]

    def test_rounded_operations_are_counted(self):
        self.assertEqual(check_ptx.check(ROUNDED, "x.ptx"), ([], 2))

    def test_moves_comparisons_and_conversions_are_allowed(self):
        for line in (
            "ld.global.f32 %f1, [%rd1];",
            "st.shared.f32 [%r1], %f1;",
            "selp.f32 %f3, %f1, %f2, %p1;",
            "setp.lt.f32 %p1, %f1, %f2;",
            "mov.f64 %fd1, 0d0000000000000000;",
            "cvt.f64.f32 %fd1, %f1;",
            "cvt.rn.f32.f64 %f1, %fd1;",
            "cvt.rn.f32.s16 %f1, %rs1;",
            "abs.f32 %f1, %f2;",
            "div.rn.f32 %f1, %f2, %f3;",
            "sqrt.rn.f32 %f1, %f2;",
        ):
            self.assertEqual(self.faults("\t" + line), [], line)

    def test_arithmetic_of_integers_is_no_concern(self):
        for line in ("mad.lo.s32 %r1, %r2, %r3, %r4;", "fma_is_no_instruction:", "// fma.rn.f32"):
            self.assertEqual(self.faults("\t" + line), [], line)

    def test_operations_with_other_bits_are_named(self):
        for line in (
            "fma.rn.f32 %f1, %f2, %f3, %f4;",
            "mad.rn.f64 %fd1, %fd2, %fd3, %fd4;",
            "mul.f32 %f1, %f2, %f3;",
            "add.rz.f32 %f1, %f2, %f3;",
            "div.full.f32 %f1, %f2, %f3;",
            "div.approx.f32 %f1, %f2, %f3;",
            "sqrt.approx.f32 %f1, %f2;",
            "ex2.approx.f32 %f1, %f2;",
            "add.rn.ftz.f32 %f1, %f2, %f3;",
            "setp.lt.ftz.f32 %p1, %f1, %f2;",
            "cvt.rzi.s32.f32 %r1, %f1;",
            "rcp.rn.f32 %f1, %f2;",
            "red.global.add.f32 [%rd1], %f1;",
            "@!%p2 fma.rn.f32 %f1, %f2, %f3, %f4;",
        ):
            faults = self.faults("\t" + line)
            self.assertEqual(len(faults), 1, line)
            self.assertTrue(faults[0].startswith("x.ptx:3: "), faults)

    def test_only_matrix_products_have_fused_operations(self):
        product = (
            "\t// .globl _ZN4zero6bodies21matrix_product_kernelILi1EEEvNS_13MatrixProductE\n"
            ".visible .entry _ZN4zero6bodies21matrix_product_kernelILi1EEEvNS_13MatrixProductE(\n"
        )
        fused = "\tfma.rn.f32 %f1, %f2, %f3, %f4;"
        self.assertEqual(self.faults(product + fused), [])
        for line in (
            "\tfma.rz.f32 %f1, %f2, %f3, %f4;",
            "\tfma.rn.ftz.f32 %f1, %f2, %f3, %f4;",
            "\tfma.rn.f64 %fd1, %fd2, %fd3, %fd4;",
            "\tmad.rn.f32 %f1, %f2, %f3, %f4;",
        ):
            self.assertEqual(len(self.faults(product + line)), 1, line)
        other = ".visible .entry _ZN4zero6bodies20matrix_divide_kernelENS_19MatrixNormArgumentsE(\n"
        self.assertEqual(len(self.faults(product + fused + "\n" + other + fused)), 1)

    def test_a_file_without_arithmetic_proves_nothing(self):
        self.assertEqual(len(check_ptx.check("ret;\n", "x.ptx")[0]), 1)


if __name__ == "__main__":
    unittest.main()
