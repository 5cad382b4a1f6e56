// Law 2 over thread ranks: stages 0 to 3 give the same bits for any budget, and send and hold as much as planned.
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zero/plan/units/estimate.h"

#include "tests/engine/scripted_run.h"
#include "tests/support/fp32_states.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

struct Case {
  int world;
  DType dtype;
  int accumulate;
  Reduce reduce;
};

std::string name_of(const Case& c) {
  return fmt::format("{} ranks, {}, {} micro-batches, reduce {}", c.world, name_of(c.dtype), c.accumulate,
                     c.reduce == Reduce::kAuto   ? "auto"
                     : c.reduce == Reduce::kEach ? "each"
                                                 : "last");
}

// A sample of the cases has every way to sum with every type, and some cases of every world.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const int world : {1, 2, 3, 4}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      cases.push_back({world, dtype, 1, Reduce::kEach});
      cases.push_back({world, dtype, 2, Reduce::kAuto});
      cases.push_back({world, dtype, 3, Reduce::kEach});
      cases.push_back({world, dtype, 3, Reduce::kLast});
    }
    // Each world has one fp16 case, each with another way to accumulate.
    cases.push_back({world, DType::kFloat16, 1 + world % 3, world == 4 ? Reduce::kLast : Reduce::kEach});
  }
  Sweep sweep(4);
  std::erase_if(cases, [&](const Case&) { return !sweep.takes_next(); });
  return cases;
}

std::vector<MemoryBudget> budgets(const Case& c, int stage) {
  const auto units = make_units(small_specs(c.dtype), {});
  std::int64_t gathered = 0;
  std::int64_t largest = 0;
  for (const Unit& unit : units) {
    gathered += gathered_bytes(unit, c.world);
    largest = std::max(largest, gathered_bytes(unit, c.world));
  }
  const std::int64_t state = state_bytes(units, c.world, place(stage, c.reduce, c.accumulate), fp32_states(2)).total();
  const MemoryBudget half{.kind = MemoryBudget::Kind::kBytes, .bytes = state + 2 * largest + gathered / 2};
  return {{.kind = MemoryBudget::Kind::kMin}, half, {}};
}

constexpr int kSteps = 4;  // the first on demand, the rest replayed

// `absent`: in the last step a parameter gets no gradient, on any rank.
ScriptedRun train(const Case& c, int stage, const MemoryBudget& memory, bool absent = false) {
  const auto before = [absent](ScriptedModel& model, int step) {
    if (absent && step == kSteps - 1)
      model.has_gradient = [&model](int param) { return param != model.param_named("h.0.bias"); };
  };
  return scripted_run(
      c.world, small_specs(c.dtype),
      {.stage = stage, .clip = 1.5, .reduce = c.reduce, .accumulate = c.accumulate, .device_memory = memory},
      {.steps = kSteps, .before = before});
}

class Stages : public testing::TestWithParam<Case> {};

TEST_P(Stages, KeepBitsInAnyBudget) {
  std::optional<ScriptedRun> first;
  for (int stage = 0; stage <= 3; ++stage) {
    for (const MemoryBudget& memory : budgets(GetParam(), stage)) {
      const ScriptedRun outcome = train(GetParam(), stage, memory, /*absent=*/true);
      if (!first) first = outcome;
      EXPECT_EQ(outcome.norms, first->norms) << "stage " << stage;
      EXPECT_EQ(outcome.weights, first->weights) << "stage " << stage;
      EXPECT_EQ(outcome.checksums, first->checksums) << "stage " << stage;
    }
  }
  EXPECT_GT(first->norms[0], 0);
}

// With the minimum budget, the bytes also equal the formula.
TEST_P(Stages, SendPlannedBytes) {
  const Case& c = GetParam();
  for (int stage = 0; stage <= 3; ++stage) {
    bool minimum = true;
    for (const MemoryBudget& memory : budgets(c, stage)) {
      const std::vector<EngineReport> reports = train(c, stage, memory).reports;
      for (const EngineReport& report : reports) {
        EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << "stage " << stage;
        EXPECT_EQ(report.received_bytes_per_step, report.planned_sent_bytes) << "stage " << stage;
        if (minimum || stage < 3) {
          const auto units = make_units(small_specs(c.dtype), {});
          EXPECT_EQ(report.sent_bytes_per_step, sent_bytes(units, c.world, place(stage, c.reduce, c.accumulate)));
        }
      }
      minimum = false;
    }
  }
}

TEST_P(Stages, HoldNoMoreThanTheBudget) {
  const Case& c = GetParam();
  for (int stage = 0; stage <= 3; ++stage) {
    const MemoryBudget half = budgets(c, stage)[1];
    const std::vector<EngineReport> reports = train(c, stage, half).reports;
    for (const EngineReport& report : reports) {
      const auto units = make_units(small_specs(c.dtype), {});
      std::int64_t largest = 0;
      for (const Unit& unit : units) largest = std::max(largest, gathered_bytes(unit, c.world));
      const std::int64_t state =
          state_bytes(units, c.world, place(stage, c.reduce, c.accumulate), fp32_states(2)).total();
      EXPECT_LE(report.peak_memory_bytes.device, half.bytes)
          << "stage " << stage << " gathered " << report.peak_memory.device[MemoryTag::kGathered] << " of "
          << half.bytes - state - 2 * largest << ", staging " << report.peak_memory.device[MemoryTag::kStaging]
          << " of " << 2 * largest;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Stages, testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name = name_of(info.param);
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
});

// Units have two dtypes. Their sizes are not divisible by the number of ranks, and some have fewer elements than ranks.
TEST(StagesOfAMixedModelOnAnyDevice, GiveTheSameBits) {
  std::vector<ParamSpec> specs = small_specs(DType::kBFloat16);
  specs.push_back({.name = "h.0.norm", .shape = {3}});
  specs.push_back({.name = "h.2.norm", .shape = {5}});
  specs.push_back({.name = "scale", .shape = {}});
  std::vector<std::vector<std::uint32_t>> weights;
  for (int stage = 0; stage <= 3; ++stage) {
    for (const auto kind : {MemoryBudget::Kind::kMin, MemoryBudget::Kind::kAuto}) {
      on_ranks(7, [&](Communicator& comm) {
        ScriptedModel model(
            comm, specs, {.stage = stage, .optimizer = SgdOptions{.momentum = 0.9}, .device_memory = {.kind = kind}});
        for (int step = 0; step < 3; ++step) model.train(step);
        const auto bits = model.weight_bits();
        if (comm.rank() == 0) weights.push_back(bits);
      });
    }
  }
  for (const auto& bits : weights) EXPECT_EQ(bits, weights[0]);
}

// Shards above 4 KiB are read in place. A late rank must still find them unchanged.
TEST(StagesOfLargeUnitsOnAnyDevice, KeepBitsWithALateRank) {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 4; ++i) specs.push_back({.name = "h." + std::to_string(i) + ".w", .shape = {64, 60 + i}});
  std::vector<std::vector<std::uint32_t>> weights;
  for (int stage = 0; stage <= 3; ++stage) {
    for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
      on_ranks(3, [&](Communicator& comm) {
        ScriptedModel model(
            comm, specs,
            {.stage = stage, .reduce = reduce, .accumulate = 2, .device_memory = {.kind = MemoryBudget::Kind::kMin}});
        for (int step = 0; step < 4; ++step) {
          // In each step another rank is late, before its forward and before its backward pass. The delay does not
          // matter.
          const auto dawdle = [&] {
            if (step % 3 == comm.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
          };
          for (int micro = 0; micro < 2; ++micro) {
            dawdle();
            model.forward(model.all_units());
            dawdle();
            model.backward(model.all_units(), step, micro);
          }
          model.engine().step(0.01);
        }
        const auto bits = model.weight_bits();
        if (comm.rank() == 0) weights.push_back(bits);
      });
    }
  }
  for (std::size_t run = 2; run < weights.size(); ++run) EXPECT_EQ(weights[run], weights[run % 2]) << "run " << run;
}

// A model declares its units in another order than it uses them, like GPT-2's embeddings. The bits are the same.
TEST(StagesOfAShuffledModelOnAnyDevice, UpdateInForwardOrder) {
  const std::vector<int> order{3, 1, 4, 0, 2};
  constexpr int kShuffledSteps = 3;
  std::vector<std::vector<std::uint32_t>> weights;
  const auto run = [&](const AttachOptions& options) {
    on_ranks(2, [&](Communicator& comm) {
      Timeline timeline;
      AttachOptions watched = options;
      watched.timeline = &timeline;
      ScriptedModel model(comm, small_specs(DType::kFloat32, /*with_frozen=*/false), watched);
      ASSERT_EQ(model.units().size(), order.size());
      timeline.start();
      for (int step = 0; step < kShuffledSteps; ++step) model.train(step, 1, order);
      model.engine().finish();
      timeline.stop();
      std::vector<int> updated;
      for (const TimelineSpan& span : timeline.spans()) {
        if (span.activity == Activity::kUpdate) updated.push_back(span.unit);
      }
      std::vector<int> wanted = model.all_units();  // the first step has no known order
      for (int step = 1; step < kShuffledSteps; ++step) wanted.insert(wanted.end(), order.begin(), order.end());
      if (!options.delayed_update) {
        EXPECT_EQ(updated, wanted) << "stage " << options.stage;
      }
      const auto bits = model.weight_bits();
      if (comm.rank() == 0) weights.push_back(bits);
    });
  };
  for (int stage = 0; stage <= 3; ++stage) run({.stage = stage});
  AttachOptions behind_a_link{.stage = 3};
  behind_a_link.offload.fractions.optimizer.host = 1;
  behind_a_link.offload.link_bytes_per_second = 1e9;
  run(behind_a_link);
  for (const auto& bits : weights) EXPECT_EQ(bits, weights[0]);
  // A delayed update ends with the remaining units, in that order.
  weights.clear();
  for (const int stage : {2, 3}) run({.stage = stage, .delayed_update = true, .exact_steps = 1});
  behind_a_link.delayed_update = true;
  behind_a_link.exact_steps = 1;
  run(behind_a_link);
  for (const auto& bits : weights) EXPECT_EQ(bits, weights[0]);
}

TEST(StagesOfOneRankOnAnyDevice, AnyThreadCountKeepsBits) {
  std::vector<std::vector<std::uint32_t>> weights;
  for (const int threads : {1, 3}) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = 2, .threads = threads});
      for (int step = 0; step < 3; ++step) model.train(step);
      const auto bits = model.weight_bits();
      if (comm.rank() == 0) weights.push_back(bits);
    });
  }
  EXPECT_EQ(weights[0], weights[1]);
}

}  // namespace
}  // namespace zero
