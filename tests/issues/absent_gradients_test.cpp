// At stage 0, a rank without any gradient in a step filled its whole gradient with zeros. A late peer was still reading
// the last step's gradient there, so the ranks' weights differed. Found by random placements.
#include <gtest/gtest.h>

#include "tests/engine/scripted_run.h"

namespace zero {
namespace {

TEST(AbsentGradients, LatePeerKeepsThemUnfilled) {
  const auto before = [](ScriptedModel& model, int step) { model.has_gradient = [step](int) { return step != 2; }; };
  for (int round = 0; round < 40; ++round) {
    const ScriptedRun run = scripted_run(2, {{.name = "p", .shape = {2049}, .own_unit = true}},
                                         {.stage = 0, .reduce = Reduce::kEach}, {.steps = 3, .before = before});
    ASSERT_EQ(run.checksums[0], run.checksums[1]) << "round " << round;
  }
}

}  // namespace
}  // namespace zero
