#include "zero/plan/placement/placement_programme.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/plan/random_step_model.h"
#include "tests/support/command_end.h"
#include "tests/support/python_with.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

StepModel model_of(int stage, std::vector<Unit> units) {
  return {.units = std::move(units),
          .placement = place(stage, Reduce::kAuto, 1),
          .rates = {.link_up = 4e9,
                    .link_down = 4e9,
                    .requests = {.disk = {.read = 2e9, .write = 1e9}},
                    .update_numel = 1e9},
          .profile = {.forward_seconds = 0.001, .backward_seconds = 0.002}};
}

// Units whose elements cost the same form one class.
TEST(PlacementProgramme, EqualCostsFormOneClass) {
  StepModel model = model_of(3, {one_unit(64, DType::kFloat32, 0), one_unit(6400, DType::kFloat32, 1),
                                 one_unit(64, DType::kBFloat16, 2), one_unit(64, DType::kFloat32, 3, false)});
  const PlacementProgramme programme(model);
  ASSERT_EQ(programme.classes().size(), 3u);
  EXPECT_EQ(programme.classes()[0].units, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(programme.classes()[0].numel, 6464);
  // A unit that is gathered more often is a class of its own.
  model.profile.forward_gathers = {1, 2, 1, 1};
  EXPECT_EQ(PlacementProgramme(model).classes().size(), 4u);
}

TEST(PlacementProgramme, OnlyWhatIsShardedMoves) {
  for (int stage = 0; stage <= 3; ++stage) {
    const StepModel model = model_of(stage, {one_unit(1000, DType::kBFloat16)});
    const PlacementProgramme programme(model);
    const UnitClass& units = programme.classes()[0];
    EXPECT_EQ(programme.can_move(units, &UnitTiers::parameter), stage >= 3);
    EXPECT_EQ(programme.can_move(units, &UnitTiers::gradient), stage >= 2);
    EXPECT_TRUE(programme.can_move(units, &UnitTiers::optimizer));
    EXPECT_EQ(programme.bytes().total, 1024 * 16);
    EXPECT_EQ(programme.bytes().movable, 1024 * (stage >= 3 ? 16 : stage >= 2 ? 14 : 12));
  }
}

TEST(PlacementProgramme, FrozenUnitMovesOneState) {
  const PlacementProgramme programme(model_of(3, {one_unit(1024, DType::kFloat32, 0, false)}));
  EXPECT_FALSE(programme.can_move(programme.classes()[0], &UnitTiers::gradient));
  EXPECT_FALSE(programme.can_move(programme.classes()[0], &UnitTiers::optimizer));
  EXPECT_EQ(programme.bytes().movable, 4096);
}

TEST(PlacementProgramme, SmallBudgetsHaveNoSolution) {
  const PlacementProgramme programme(model_of(1, {one_unit(1024, DType::kFloat32)}));
  EXPECT_TRUE(programme.solve({.device = 8192, .host = 8192}));
  EXPECT_FALSE(programme.solve({.device = 8192, .host = 8000}));
  EXPECT_FALSE(programme.solve({.device = 8000, .host = 100000}));
}

TEST(PlacementProgramme, TierWithoutBudgetStaysUnused) {
  const PlacementProgramme programme(model_of(3, {one_unit(1 << 20, DType::kFloat32)}));
  const std::int64_t all = programme.bytes().total;
  const auto on_host = programme.solve({.device = all / 3, .host = all});
  ASSERT_TRUE(on_host);
  const StateFractions& states = on_host->fractions[0];
  EXPECT_EQ(states.parameter.disk + states.gradient.disk + states.optimizer.disk, 0);
  const auto off_device = programme.solve({.host = all / 2, .disk = all});
  ASSERT_TRUE(off_device);
  for (const TierFractions& state :
       {off_device->fractions[0].parameter, off_device->fractions[0].gradient, off_device->fractions[0].optimizer})
    EXPECT_EQ(state.host + state.disk, 1);
}

TEST(PlacementProgramme, SecondsMatchTheModel) {
  // The budgets leave only the host for all moments: fp32, 8 bytes down and 4 up an element.
  const StepModel model = model_of(1, {one_unit(1 << 20, DType::kFloat32)});
  const auto solution = PlacementProgramme(model).solve({.device = 8 << 20, .host = 8 << 20});
  ASSERT_TRUE(solution);
  const double numel = 1 << 20;
  EXPECT_NEAR(solution->seconds, 0.003 + 8 * numel / 4e9, 1e-9);
  EXPECT_EQ(solution->fractions[0].optimizer, (TierFractions{.host = 1}));
}

// ---- a second solver ------------------------------------------------------------------------------------------------

// Reads the output of write_programme() and prints the least cost, or "infeasible".
constexpr const char* kSecondSolver = R"(
import json, sys
from scipy.optimize import linprog
from scipy.sparse import coo_array

for line in open(sys.argv[1]):
    p = json.loads(line)
    number = {"-inf": float("-inf"), "inf": float("inf")}
    value = lambda x: number.get(x, x)
    rows, columns, values, bounds = [], [], [], []
    for row in p["rows"]:
        for sign, bound in ((1, value(row["upper"])), (-1, -value(row["lower"]))):
            if bound == float("inf"):
                continue
            for column, coefficient in row["terms"]:
                rows.append(len(bounds)); columns.append(column); values.append(sign * coefficient)
            bounds.append(bound)
    a = coo_array((values, (rows, columns)), shape=(len(bounds), len(p["columns"]))).tocsr()
    result = linprog([c["cost"] for c in p["columns"]], A_ub=a, b_ub=bounds, method="highs",
                     bounds=[(value(c["lower"]), value(c["upper"])) for c in p["columns"]])
    print("infeasible" if result.status == 2 else repr(result.fun) if result.status == 0 else result.message)
)";

std::string number(double value) {
  return std::isinf(value) ? value > 0 ? "\"inf\"" : "\"-inf\"" : fmt::format("{:.17g}", value);
}

std::string written(const LinearProgramme& programme) {
  std::string text = "{\"columns\": [";
  const char* comma = "";
  for (const auto& column : programme.columns) {
    text += fmt::format("{}{{\"lower\": {}, \"upper\": {}, \"cost\": {}}}", std::exchange(comma, ", "),
                        number(column.lower), number(column.upper), number(column.cost));
  }
  text += "], \"rows\": [";
  comma = "";
  for (const auto& row : programme.rows) {
    text += fmt::format("{}{{\"lower\": {}, \"upper\": {}, \"terms\": [", std::exchange(comma, ", "),
                        number(row.bounds.lower), number(row.bounds.upper));
    const char* inner = "";
    for (const auto& term : row.terms)
      text += fmt::format("{}[{}, {:.17g}]", std::exchange(inner, ", "), term.column, term.coefficient);
    text += "]}";
  }
  return text + "]}\n";
}

std::vector<std::string> lines_of(const std::string& command) {
  std::istringstream text(end_of_command(command).text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// The Python that scipy_python of tools/packages.sh finds: the package belongs to the system's Python. Empty if none
// has it.
std::string python_with_scipy() {
  const char* const named = std::getenv("ZERO_HIGHS_PYTHON");
  const std::vector<std::string> candidates =
      named != nullptr ? std::vector<std::string>{named} : std::vector<std::string>{"python3", "/usr/bin/python3"};
  for (const std::string& python : candidates) {
    if (can_import(python, "scipy.optimize, scipy.sparse")) return python;
  }
  return "";
}

TEST(PlacementProgramme, HighsFindsTheSameLeastCost) {
  const std::string python = python_with_scipy();
  if (python.empty())
    GTEST_SKIP() << "no Python here has scipy, whose HiGHS would be the second solver (install python3-scipy, or name "
                    "one with ZERO_HIGHS_PYTHON)";

  std::vector<LinearProgramme> programmes;
  std::string input;
  ASSERT_TRUE(rc::check("a hundred programmes", [&] {
    const PlacementProgramme placement(random_step_model());
    TierBudgets budgets = random_budgets(placement.bytes().total);
    if (programmes.size() % 2 == 0) budgets.disk = placement.bytes().total;  // few other budgets have a solution
    programmes.push_back(placement.programme(budgets));
    input += written(programmes.back());
  }));
  const TemporaryFolder folder;
  const std::string script = folder.write("second_solver.py", kSecondSolver);
  const std::string path = folder.write("programmes.jsonl", input);
  const std::vector<std::string> answers = lines_of(fmt::format("{} {} {}", python, script, path));
  ASSERT_EQ(answers.size(), programmes.size());
  int num_feasible = 0;
  for (std::size_t i = 0; i < programmes.size(); ++i) {
    const auto ours = solve(programmes[i]);
    ASSERT_EQ(ours.has_value(), answers[i] != "infeasible") << i << ": " << answers[i];
    if (!ours) continue;
    ++num_feasible;
    const double theirs = std::stod(answers[i]);
    EXPECT_NEAR(programmes[i].cost_of(*ours), theirs, 1e-6 * std::max(1.0, std::abs(theirs))) << i;
  }
  EXPECT_GT(num_feasible, 10);
}

}  // namespace
}  // namespace zero
