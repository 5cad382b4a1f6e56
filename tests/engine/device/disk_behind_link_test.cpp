// A disk behind a link: bytes between disk and device also cross the link, as many as the step model charges.
#include <gtest/gtest.h>

#include "zero/plan/model/step_model.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// The largest unit has several tiles.
std::vector<ParamSpec> specs() {
  return {{.name = "wte", .shape = {300, 101}, .own_unit = true},
          {.name = "h.0.weight", .shape = {160, 150}},
          {.name = "h.1.weight", .shape = {900, 1000}},
          {.name = "h.1.table", .shape = {20000}, .trainable = false}};
}

class DiskBehindALink : public testing::Test {
 protected:
  AttachOptions options(const StateFractions& fractions, MemoryBudget::Kind host = MemoryBudget::Kind::kAuto) const {
    AttachOptions options{.stage = 3, .reduce = Reduce::kEach};
    options.offload.fractions = fractions;
    options.offload.disk = {folder_.path().string()};
    options.offload.host_memory.kind = host;
    options.offload.link_bytes_per_second = 1e11;
    return options;
  }
  TemporaryFolder folder_;
};

struct Crossed {
  double up = 0, down = 0;
};

// At a rate of one byte a second, predicted seconds equal bytes.
Crossed predicted(RankEngine& engine) {
  const Schedule& schedule = engine.schedule();
  StepModel model{.units = engine.units(),
                  .world = engine.resources().comm.world(),
                  .placement = schedule.placement,
                  .rates = {.link_up = 1, .link_down = 1}};
  count_gathers(schedule, engine.units().size(), model.profile);
  Crossed crossed;
  for (const auto& phase : predict(model, schedule.placement.tiers).busy) {
    crossed.up += phase[static_cast<std::size_t>(Resource::kLinkUp)];
    crossed.down += phase[static_cast<std::size_t>(Resource::kLinkDown)];
  }
  return crossed;
}
using DiskBehindALinkSlow = DiskBehindALink;

TEST_F(DiskBehindALinkSlow, MovesTheStepModelsBytes) {
  const std::vector<StateFractions> placements{
      {.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}},
      {.parameter = {.host = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}},
      {.gradient = {.disk = 1}, .optimizer = {.host = 1}},
      {.gradient = {.host = 0.5, .disk = 0.5}, .optimizer = {.disk = 1}},
      {.optimizer = {.disk = 1}},
  };
  for (std::size_t i = 0; i < placements.size(); ++i) {
    for (const int accumulate : {1, 2}) {
      AttachOptions mine = options(placements[i]);
      mine.accumulate = accumulate;
      on_ranks(2, [&](Communicator& comm) {
        ScriptedModel model(comm, specs(), mine);
        for (int step = 0; step < 4; ++step) {
          model.train(step, accumulate);
          if (step >= 2) {
            const LinkTraffic& seen = model.engine().report().link_per_step;
            const Crossed said = predicted(model.engine());
            EXPECT_EQ(static_cast<double>(seen.up_bytes), said.up) << "placement " << i << ", " << accumulate;
            EXPECT_EQ(static_cast<double>(seen.down_bytes), said.down) << "placement " << i << ", " << accumulate;
          }
          model.engine().finish();
        }
      });
    }
  }
}
using DiskBehindALinkSlowOnAnyDevice = DiskBehindALink;

TEST_F(DiskBehindALinkSlowOnAnyDevice, KeepsBitsAndStaging) {
  const StateFractions all{.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}};
  for (const MemoryBudget::Kind kind : {MemoryBudget::Kind::kAuto, MemoryBudget::Kind::kMin}) {
    std::vector<std::vector<std::uint32_t>> weights;
    std::vector<std::int64_t> peaks;
    for (const double rate : {0.0, 1e9}) {
      AttachOptions mine = options(all, kind);
      mine.offload.link_bytes_per_second = rate;
      on_ranks(2, [&](Communicator& comm) {
        ScriptedModel model(comm, specs(), mine);
        for (int step = 0; step < 3; ++step) model.train(step);
        const auto bits = model.weight_bits();
        if (comm.rank() != 0) return;
        weights.push_back(bits);
        peaks.push_back(model.engine().report().peak_memory_bytes.host);
      });
    }
    EXPECT_EQ(weights.at(1), weights.at(0));
    EXPECT_LE(peaks.at(1), peaks.at(0));
  }
}

}  // namespace
}  // namespace zero
