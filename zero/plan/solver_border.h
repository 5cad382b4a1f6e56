// solver_border: the one function of a plug-in that solves linear programmes, libzero_plan_clp.so.
//
// The plug-in includes this header and no other of ours, and links none of our libraries. Nothing is thrown across.
#pragma once

namespace zero {

// minimise cost * x, where column_lower <= x <= column_upper and row_lower <= A x <= row_upper. A by columns: column j
// has the entries column_start[j] to column_start[j + 1] of row_index and coefficient. Infinities are bounds, too.
struct SolverProgramme {
  int num_columns;
  int num_rows;
  const int* column_start;
  const int* row_index;
  const double* coefficient;
  const double* column_lower;
  const double* column_upper;
  const double* cost;
  const double* row_lower;
  const double* row_upper;
};

enum class SolverStatus : int { kOptimal, kInfeasible, kUnbounded, kGaveUp };

// Under the name "zero_solve_programme". `x`: num_columns values, written where the status is kOptimal.
using SolveProgramme = SolverStatus (*)(const SolverProgramme* programme, double* x);

}  // namespace zero
