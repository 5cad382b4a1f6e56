// solver_border: the one function of libzero_plan_clp.so, a plug-in that solves linear programmes.
//
// The plug-in includes only this header of ours, and links none of our libraries. The function throws no exceptions.
#pragma once

namespace zero {

// Minimise cost * x with column_lower <= x <= column_upper and row_lower <= A x <= row_upper. A is stored by columns:
// column j has the entries column_start[j] to column_start[j + 1] of row_index and coefficient. Bounds may be infinite.
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

// Exported as "zero_solve_programme". `x`: num_columns values, written if the status is kOptimal.
using SolveProgramme = SolverStatus (*)(const SolverProgramme* programme, double* x);

}  // namespace zero
