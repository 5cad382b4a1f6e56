#include "zero/engine/place/stage_cost.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/engine/scripted_run.h"
#include "tests/support/message_of.h"

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

// With one micro-batch and with several. At stage 0 ranks gather the sums, which have twice the bytes of a parameter.
TEST(StageCost, Fp32SumsAreTheEngines) {
  const std::vector<ParamSpec> specs{{.name = "h.0.w", .shape = {32, 64}, .dtype = DType::kBFloat16},
                                     {.name = "h.1.w", .shape = {32, 64}, .dtype = DType::kBFloat16}};
  constexpr std::int64_t kNumel = 2 * 32 * 64;
  for (const int accumulate : {1, 3}) {
    for (int stage = 0; stage < 3; ++stage) {
      const AttachOptions options{.stage = stage,
                                  .accumulate = accumulate,
                                  .reduce_dtype = DType::kFloat32,
                                  .device_memory = MemoryBudget::parse("min")};
      const Mesh mesh = mesh_of(2, options);
      const StageCost cost =
          cost_of(units_of(specs, 2, options), mesh, options, placement_at(options, mesh, stage), stage);
      EXPECT_EQ(cost.state.gradient, 4 * kNumel / (stage < 2 ? 1 : 2)) << stage;
      EXPECT_EQ(cost.sent, (2 * accumulate + (stage == 0 ? 4 : 2)) * kNumel / 2) << stage;
      const ScriptedRun run = scripted_run(2, specs, options, {.steps = 2});
      EXPECT_EQ(run.reports[0].memory.device[MemoryTag::kGradient], cost.state.gradient) << stage;
      EXPECT_EQ(run.reports[0].memory.device.state(), cost.state.total()) << stage;
      EXPECT_EQ(run.reports[0].sent_bytes_per_step, cost.sent) << stage;
    }
  }
}

TEST(StageCost, Fp32SumsNeedEachReduction) {
  const AttachOptions options{.reduce = Reduce::kLast, .accumulate = 2, .reduce_dtype = DType::kFloat32};
  EXPECT_TRUE(says(message_of<ConfigError>([&] { placement_at(options, mesh_of(2, options), 0); }),
                   "reduce_dtype = fp32: with reduce = \"last\""));
}

}  // namespace
}  // namespace zero
