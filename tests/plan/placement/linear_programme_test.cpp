#include "zero/plan/placement/linear_programme.h"

#include <algorithm>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

TEST(LinearProgramme, FindsTheCornerThatCostsLeast) {
  // The example of every textbook: maximise 3x + 5y with x <= 4, 2y <= 12, 3x + 2y <= 18. The solution is (2, 6).
  LinearProgramme programme;
  const int x = programme.add_column({.upper = 4, .cost = -3});
  const int y = programme.add_column({.cost = -5});
  programme.add_row({{y, 2}}, {.upper = 12});
  programme.add_row({{x, 3}, {y, 2}}, {.upper = 18});
  const auto solution = solve(programme);
  ASSERT_TRUE(solution);
  EXPECT_NEAR((*solution)[0], 2, 1e-9);
  EXPECT_NEAR((*solution)[1], 6, 1e-9);
  EXPECT_NEAR(programme.cost_of(*solution), -36, 1e-9);
}

TEST(LinearProgramme, EqualitiesHold) {
  LinearProgramme programme;
  const int x = programme.add_column({.lower = -10, .cost = 1});
  const int y = programme.add_column({.lower = -10, .cost = 2});
  programme.add_row({{x, 1}, {y, 1}}, {.lower = 3, .upper = 3});
  const auto solution = solve(programme);
  ASSERT_TRUE(solution);
  EXPECT_NEAR((*solution)[0], 13, 1e-9);
  EXPECT_NEAR((*solution)[1], -10, 1e-9);
}

TEST(LinearProgramme, InfeasibleBoundsHaveNoSolution) {
  LinearProgramme programme;
  const int x = programme.add_column({.upper = 1});
  programme.add_row({{x, 1}}, {.lower = 2});
  EXPECT_FALSE(solve(programme));
}

TEST(LinearProgramme, UnboundedProgrammeIsBug) {
  LinearProgramme programme;
  programme.add_column({.cost = -1});
  EXPECT_THROW(solve(programme), InternalError);
}

TEST(LinearProgramme, BoundsSolveProgrammeWithoutRows) {
  LinearProgramme programme;
  programme.add_column({.lower = 2, .upper = 5, .cost = 1});
  programme.add_column({.lower = 2, .upper = 5, .cost = -1});
  EXPECT_EQ(solve(programme), (std::vector<double>{2, 5}));
}

TEST(LinearProgramme, MissingSolverNamesRemedy) {
  for (const char* absent :
       {"libzero_no_such_solver.so", "zero_plan_test"}) {  // no file, and a file that is no library
    try {
      solve(LinearProgramme{}, absent);
      ADD_FAILURE() << absent;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "zero.placement");
      EXPECT_NE(std::string(error.what()).find(absent), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("coinor-libclp-dev"), std::string::npos) << error.what();
    }
  }
}

// libtorch looks up functions of these names and must find its own (docs/decisions/0007-lp-solver-is-a-plug-in.md).
TEST(LinearProgramme, HidesSolversBlas) {
  LinearProgramme programme;
  programme.add_column({});
  ASSERT_TRUE(solve(programme));
  for (const char* function : {"sgemm_", "dgemm_", "dgetrf_", "Clp_newModel"})
    EXPECT_EQ(dlsym(RTLD_DEFAULT, function), nullptr) << function;
}

// min c x over a x <= b, with x in [0, 1] and positive numbers, is a fractional knapsack. It takes items in order of
// worth until it is full.
RC_GTEST_PROP(LinearProgramme, FillsFractionalKnapsackByWorth, ()) {
  const auto number = [] { return *rc::gen::inRange(1, 100) / 10.0; };
  const int num = *rc::gen::inRange(1, 12);
  LinearProgramme programme;
  std::vector<LinearProgramme::Term> terms;
  std::vector<std::pair<double, double>> items;  // worth a unit of weight, weight
  for (int i = 0; i < num; ++i) {
    const double weight = number(), worth = number();
    terms.push_back({programme.add_column({.upper = 1, .cost = -worth}), weight});
    items.emplace_back(worth / weight, weight);
  }
  double room = number() * 2;
  programme.add_row(terms, {.upper = room});
  std::sort(items.rbegin(), items.rend());
  double best = 0;
  for (const auto& [density, weight] : items) {
    const double taken = std::min(weight, room);
    best -= density * taken;
    room -= taken;
  }
  const auto solution = solve(programme);
  RC_ASSERT(solution.has_value());
  RC_ASSERT(std::abs(programme.cost_of(*solution) - best) < 1e-7);
  RC_ASSERT(solve(programme) == solution);
}

}  // namespace
}  // namespace zero
