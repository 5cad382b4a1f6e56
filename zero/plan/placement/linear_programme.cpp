#include "zero/plan/placement/linear_programme.h"

#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/files/plugin_file.h"
#include "zero/plan/placement/solver_border.h"

namespace zero {
namespace {

[[noreturn]] void refuse(const std::string& reason) {
  throw ConfigError("zero.placement", "auto", reason,
                    "build zero.cpp with coinor-libclp-dev and keep its libraries together, or give fractions: "
                    "zero.optimizer = {host = 0.6, disk = 0.4}");
}

// Opens the solver with local symbols: its BLAS has functions with the names of libtorch's, and must not replace them.
SolveProgramme open_solver(std::string_view plugin) {
  const std::string path = plugin_file(plugin);
  if (path.empty()) refuse(fmt::format("the solver, {}, is not installed", plugin));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) refuse(dlerror());
  void* solve = dlsym(library, "zero_solve_programme");
  if (solve == nullptr) refuse(path + " is not a plug-in of zero.cpp");
  return reinterpret_cast<SolveProgramme>(solve);
}

}  // namespace

int LinearProgramme::add_column(Column column) {
  columns.push_back(column);
  return static_cast<int>(columns.size()) - 1;
}

void LinearProgramme::add_row(std::vector<Term> terms, Bounds bounds) {
  rows.push_back({std::move(terms), bounds});
}

double LinearProgramme::cost_of(const std::vector<double>& x) const {
  double cost = 0;
  for (std::size_t column = 0; column < columns.size(); ++column) cost += columns[column].cost * x[column];
  return cost;
}

std::optional<std::vector<double>> solve(const LinearProgramme& programme, std::string_view plugin) {
  std::vector<std::vector<std::pair<int, double>>> entries(programme.columns.size());
  for (std::size_t row = 0; row < programme.rows.size(); ++row) {
    for (const LinearProgramme::Term& term : programme.rows[row].terms)
      entries[static_cast<std::size_t>(term.column)].emplace_back(static_cast<int>(row), term.coefficient);
  }
  std::vector<int> column_start{0}, row_index;
  std::vector<double> coefficient, column_lower, column_upper, cost, row_lower, row_upper;
  for (std::size_t column = 0; column < entries.size(); ++column) {
    for (const auto& [row, value] : entries[column]) {
      row_index.push_back(row);
      coefficient.push_back(value);
    }
    column_start.push_back(static_cast<int>(row_index.size()));
    column_lower.push_back(programme.columns[column].lower);
    column_upper.push_back(programme.columns[column].upper);
    cost.push_back(programme.columns[column].cost);
  }
  for (const LinearProgramme::Row& row : programme.rows) {
    row_lower.push_back(row.bounds.lower);
    row_upper.push_back(row.bounds.upper);
  }
  const SolverProgramme view{static_cast<int>(programme.columns.size()),
                             static_cast<int>(programme.rows.size()),
                             column_start.data(),
                             row_index.data(),
                             coefficient.data(),
                             column_lower.data(),
                             column_upper.data(),
                             cost.data(),
                             row_lower.data(),
                             row_upper.data()};
  std::vector<double> x(programme.columns.size());
  const SolverStatus status = open_solver(plugin)(&view, x.data());
  if (status == SolverStatus::kInfeasible) return std::nullopt;
  ZERO_CHECK(status == SolverStatus::kOptimal, "the solver ended with status {}", static_cast<int>(status));
  return x;
}

}  // namespace zero
