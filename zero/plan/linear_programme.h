// LinearProgramme: minimises cost * x, where every x and every row of sums stays within bounds.
//
//   LinearProgramme programme;
//   const int x = programme.add_column({.upper = 1, .cost = -1});
//   programme.add_row({{x, 2.0}}, {.upper = 1});
//   solve(programme)                       // {0.5}; nothing where no x is within all bounds
//
// Solved by the simplex of COIN-OR CLP, to 1e-9 in bounds and costs: give it numbers around 1. The same programme has
// the same solution every time. Values only; Local.
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

// Throws ConfigError under "zero.placement" where the solver is not there: `plugin` beside zero_core.
std::optional<std::vector<double>> solve(const LinearProgramme& programme,
                                         std::string_view plugin = "libzero_plan_clp.so");

}  // namespace zero
