// An engine's refusals and reports.
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/engine/rank_engine.h"
#include "zero/plan/units/estimate.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/fp32_states.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr MemoryBudget kMin{.kind = MemoryBudget::Kind::kMin};

// ---- refusals -------------------------------------------------------------------------------------------------------

TEST(EngineOnAnyDevice, RejectsUnannouncedBackwardPasses) {
  for (const int passes : {1, 2, 4}) {
    on_ranks(1, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = 2, .accumulate = 3});
      const std::string error = message_of<ConfigError>([&] { model.train(0, passes); });
      EXPECT_TRUE(says(error, "accumulate = 3"));
      EXPECT_TRUE(says(error, std::to_string(passes) + " backward passes"));
    });
  }
}

// The refusal names the next stage.
TEST(RankEngine, SmallBudgetNamesMinimumAndStage) {
  on_ranks(2, [](Communicator& comm) {
    const MemoryBudget tiny{.kind = MemoryBudget::Kind::kBytes, .bytes = 1000};
    const std::string error =
        message_of<ConfigError>([&] { ScriptedModel(comm, small_specs(), {.stage = 1, .device_memory = tiny}); });
    EXPECT_TRUE(says(error, "zero.device_memory"));
    EXPECT_TRUE(says(error, "needs at least"));
    EXPECT_TRUE(says(error, "stage 2 needs"));
    // For both stages, as many states as allowed are on the host. The next stage is cheaper.
    const auto size_after = [&error](std::string_view text) {
      return std::stod(error.substr(error.find(text) + text.size()));
    };
    EXPECT_LT(size_after("stage 2 needs "), size_after("needs at least "));
  });
}

TEST(EngineOnAnyDevice, OptionsOutOfRangeAreRefused) {
  on_ranks(1, [](Communicator& comm) {
    const auto error = [&](const AttachOptions& options) {
      return message_of<ConfigError>([&] { ScriptedModel(comm, small_specs(), options); });
    };
    EXPECT_TRUE(says(error({.clip = -1}), "train.clip"));
    EXPECT_TRUE(says(error({.clip = std::nan("")}), "train.clip"));
    EXPECT_TRUE(says(error({.threads = 0}), "run.threads"));
    EXPECT_TRUE(says(error({.stage = 4}), "zero.stage"));
    EXPECT_TRUE(says(error({.accumulate = 0}), "train.accumulate"));
    EXPECT_TRUE(says(error({.optimizer = AdamWOptions{.beta1 = 2}}), "optimizer.betas"));
  });
}

TEST(RankEngine, RefusesAStepInsideAScope) {
  on_ranks(1, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3});
    const GatheredUnit held = model.engine().use(0, Use::kUntraced);
    EXPECT_TRUE(says(message_of<ConfigError>([&] { model.engine().step(0.01); }), "gathered"));
  });
}

// ---- reports --------------------------------------------------------------------------------------------------------

TEST(EngineOnAnyDevice, UpdateMemoryMatchesTheFormula) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const int accumulate : {1, 3}) {
        for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
          on_ranks(3, [&](Communicator& comm) {
            ScriptedModel model(comm, small_specs(dtype),
                                {.stage = stage, .reduce = reduce, .accumulate = accumulate, .device_memory = kMin});
            for (int step = 0; step < 2; ++step) model.train(step, accumulate);
            const EngineReport report = model.engine().report();
            const StateBytes state = state_bytes(model.units(), 3, place(stage, reduce, accumulate), fp32_states(2));
            EXPECT_EQ(report.memory.device[MemoryTag::kParameter], state.parameter);
            EXPECT_EQ(report.memory.device[MemoryTag::kGradient], state.gradient);
            EXPECT_EQ(report.memory.device[MemoryTag::kMaster], state.master);
            EXPECT_EQ(report.memory.device[MemoryTag::kMoment], state.moment);
            EXPECT_EQ(report.memory.device.state(), state.total());
          });
        }
      }
    }
  }
}

TEST(RankEngine, ReportRepeatsTheOptions) {
  on_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 2, .device_memory = kMin});
    EXPECT_EQ(model.engine().report().planned_sent_bytes, 0) << "there is no plan before the first step";
    for (int step = 0; step < 2; ++step) model.train(step);
    const EngineReport report = model.engine().report();
    EXPECT_EQ(report.world, 2);
    EXPECT_EQ(report.rank, comm.rank());
    EXPECT_EQ(report.stage, 2);
    EXPECT_EQ(report.transport, "in_process");
    EXPECT_EQ(report.num_parameters, 55 + (35 + 7) + (42 + 7) + (49 + 7) + 40 + 9);
    const double trained = 55 + 42 + 49 + 56 + 9;
    EXPECT_DOUBLE_EQ(report.state_formula_bytes, trained * (4 + 12.0 / 2) + 40 * 4);
    EXPECT_DOUBLE_EQ(report.sent_formula_bytes, 2 * trained * 4 / 2);
    EXPECT_EQ(report.received_bytes_per_step, report.sent_bytes_per_step);
    EXPECT_EQ(report.sent_bytes_per_step, sent_bytes(model.units(), 2, place(2, Reduce::kAuto, 1)));
    std::int64_t padded = 0;
    for (const Unit& unit : model.units()) padded += padded_numel(unit, 2) * 4;
    EXPECT_EQ(report.padding_bytes, padded - report.num_parameters * 4);
    EXPECT_GE(report.peak_memory_bytes.device, report.memory.device.total());
    EXPECT_EQ(report.peak_memory.device[MemoryTag::kGathered], 0) << "stage 2 gathers nothing beside its parameters";
    EXPECT_EQ(report.skipped_steps, 0);
    EXPECT_EQ(report.trace_mismatches, 0);
  });
}

TEST(RankEngine, IgnoresEarlierCommunicatorTraffic) {
  on_ranks(2, [](Communicator& comm) {
    std::vector<std::byte> all(2000);
    comm.all_gather(std::span(all).subspan(static_cast<std::size_t>(comm.rank()) * 1000, 1000), all, {}).wait();
    comm.drain();
    ScriptedModel model(comm, small_specs(), {.stage = 2});
    model.train(0);
    EXPECT_EQ(model.engine().report().sent_bytes_per_step, sent_bytes(model.units(), 2, place(2, Reduce::kAuto, 1)));
  });
}

TEST(EngineOnAnyDevice, WorkSecondsStartAgainWhenTaken) {
  on_ranks(1, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3});
    model.train(0);
    EXPECT_GT(model.engine().take_work_seconds().update, 0);
    EXPECT_EQ(model.engine().take_work_seconds().update, 0);
  });
}

TEST(EngineOnAnyDevice, AModelWithoutParametersTrains) {
  on_ranks(2, [](Communicator& comm) {
    for (int stage = 0; stage <= 3; ++stage) {
      ScriptedModel model(comm, {}, {.stage = stage});
      EXPECT_EQ(model.train(0).step, 1);
      EXPECT_EQ(model.train(1).grad_norm, 0);
    }
  });
}

TEST(EngineOnAnyDevice, EmptyParametersWorkLikeOthers) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      const std::vector<ParamSpec> specs{{.name = "h.0.empty", .shape = {0, 4}},
                                         {.name = "h.1.w", .shape = {5}},
                                         {.name = "h.1.empty", .shape = {0}},
                                         {.name = "h.2.scalar", .shape = {}}};
      ScriptedModel model(comm, specs, {.stage = stage, .device_memory = kMin});
      const auto before = model.weights_of("h.2.scalar");
      for (int step = 0; step < 3; ++step) model.train(step);
      EXPECT_NE(model.weights_of("h.2.scalar"), before);
      EXPECT_EQ(model.engine().report().trace_mismatches, 0);
    });
  }
}

}  // namespace
}  // namespace zero
