// COIN-OR CLP's dual simplex behind solver_border.h. One thread, no perturbation and no presolve, so the same programme
// always takes the same pivots.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include <Clp_C_Interface.h>

#include "zero/plan/placement/solver_border.h"

namespace {

// Relative to the programme's scale; a hundredth of CLP's default.
constexpr double kTolerance = 1e-9;
constexpr int kNoPerturbation = 100;

// Replaces infinities by the largest double, which is CLP's infinity.
std::vector<double> bounds(const double* values, int count) {
  constexpr double kInfinity = std::numeric_limits<double>::max();
  std::vector<double> finite(values, values + count);
  for (double& value : finite) value = std::clamp(value, -kInfinity, kInfinity);
  return finite;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) zero::SolverStatus zero_solve_programme(
    const zero::SolverProgramme* programme, double* x) try {
  using zero::SolverStatus;
  const std::unique_ptr<Clp_Simplex, void (*)(Clp_Simplex*)> model(Clp_newModel(), Clp_deleteModel);
  Clp_setLogLevel(model.get(), 0);
  Clp_setPrimalTolerance(model.get(), kTolerance);
  Clp_setDualTolerance(model.get(), kTolerance);
  Clp_setPerturbation(model.get(), kNoPerturbation);
  const int columns = programme->num_columns;
  const int rows = programme->num_rows;
  Clp_loadProblem(model.get(), columns, rows, programme->column_start, programme->row_index, programme->coefficient,
                  bounds(programme->column_lower, columns).data(), bounds(programme->column_upper, columns).data(),
                  programme->cost, bounds(programme->row_lower, rows).data(),
                  bounds(programme->row_upper, rows).data());
  Clp_dual(model.get(), 0);
  switch (Clp_status(model.get())) {
    case 0:
      break;
    case 1:
      return SolverStatus::kInfeasible;
    case 2:
      return SolverStatus::kUnbounded;
    default:
      return SolverStatus::kGaveUp;
  }
  const double* solution = Clp_getColSolution(model.get());
  std::copy_n(solution, columns, x);
  return SolverStatus::kOptimal;
} catch (...) {  // CLP throws CoinError for input that it cannot handle
  return zero::SolverStatus::kGaveUp;
}
