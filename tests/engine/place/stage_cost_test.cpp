#include "zero/engine/place/stage_cost.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(StageCost, FollowsTheFormulasOfThePapers) {
  const std::vector<ParamSpec> specs{{.name = "w", .shape = {64, 64}}};
  const AttachOptions options;
  const Mesh mesh = mesh_of(4, options);
  const auto units = units_of(specs, 4, options);
  const double bytes = 64 * 64 * 4;
  for (int stage = 0; stage < 4; ++stage) {
    const Placement placement = placement_at(options, mesh, stage);
    const StageCost cost = cost_of(units, mesh, options, placement, stage);
    EXPECT_EQ(cost.sent_formula, (stage == 3 ? 3 : 2) * bytes * 3 / 4) << stage;
    EXPECT_EQ(static_cast<double>(cost.sent), cost.sent_formula) << stage;
    EXPECT_EQ(static_cast<double>(cost.state.total()), cost.state_formula) << stage;
  }
}

}  // namespace
}  // namespace zero
