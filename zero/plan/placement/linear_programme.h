// LinearProgramme: minimises cost * x, with bounds on every x and on every row's sum.
//
//   LinearProgramme programme;
//   const int x = programme.add_column({.upper = 1, .cost = -1});
//   programme.add_row({{x, 2.0}}, {.upper = 1});
//   solve(programme)                       // {0.5}; nullopt if no x is within all bounds
//
// COIN-OR CLP's simplex solves it, to 1e-9 in bounds and costs, so scale the numbers to around 1. The same programme
// always has the same solution. Values only; Local.
#pragma once

#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace zero {

struct LinearProgramme {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct Column {
    double lower = 0;
    double upper = kInfinity;
    double cost = 0;
  };
  struct Bounds {
    double lower = -kInfinity;
    double upper = kInfinity;
  };
  struct Term {
    int column = 0;
    double coefficient = 0;
  };
  struct Row {
    std::vector<Term> terms;  // each column at most once
    Bounds bounds;
  };

  int add_column(Column column);
  void add_row(std::vector<Term> terms, Bounds bounds);
  double cost_of(const std::vector<double>& x) const;

  std::vector<Column> columns;
  std::vector<Row> rows;
};

// Solves the programme. `plugin`: the solver's file, beside zero_core. Throws ConfigError under "zero.placement" if it
// is missing.
std::optional<std::vector<double>> solve(const LinearProgramme& programme,
                                         std::string_view plugin = "libzero_plan_clp.so");

}  // namespace zero
