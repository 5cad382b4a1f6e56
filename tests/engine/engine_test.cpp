// One engine: reports, refusals, and gradients that are missing or not finite. Equal bits at all stages are in
// stages_test.cpp.
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/transport/record_flight.h"
#include "zero/engine/rank_engine.h"
#include "zero/plan/units/estimate.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/fp32_states.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr MemoryBudget kMin{.kind = MemoryBudget::Kind::kMin};

// ---- the arithmetic -------------------------------------------------------------------------------------------------

// Clipped AdamW on one rank equals a loop written by hand.
TEST(RankEngine, OneRankMatchesHandWrittenLoop) {
  on_ranks(1, [](Communicator& comm) {
    const AdamWOptions adamw{.weight_decay = 0.1};
    const double clip = 0.5;
    const double lr = 0.01;
    const std::int64_t numel = 6;
    ScriptedModel model(comm, {{.name = "w", .shape = {2, 3}}}, {.stage = 3, .optimizer = adamw, .clip = clip});
    std::vector<double> p(numel);
    std::vector<double> m(numel, 0.0);
    std::vector<double> v(numel, 0.0);
    for (std::int64_t i = 0; i < numel; ++i)
      p[static_cast<std::size_t>(i)] = noise(7, 0, static_cast<std::uint64_t>(i));
    for (int step = 1; step <= 5; ++step) {
      std::vector<double> g(numel);
      double squares = 0;
      for (std::size_t i = 0; i < g.size(); ++i) {
        g[i] = 0.5 * p[i] + noise(static_cast<std::uint64_t>(step * 16 * 64), 0, i);
        squares += g[i] * g[i];
      }
      const double norm = std::sqrt(squares);
      const double scale = std::min(1.0, clip / (norm + 1e-6));
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double gradient = g[i] * scale;
        p[i] *= 1 - lr * adamw.weight_decay;
        m[i] = adamw.beta1 * m[i] + (1 - adamw.beta1) * gradient;
        v[i] = adamw.beta2 * v[i] + (1 - adamw.beta2) * gradient * gradient;
        const double corrected = m[i] / (1 - std::pow(adamw.beta1, step));
        p[i] -= lr * corrected / (std::sqrt(v[i] / (1 - std::pow(adamw.beta2, step))) + adamw.eps);
      }
      const StepReport report = model.train(step);
      EXPECT_EQ(report.step, step);
      EXPECT_NEAR(report.grad_norm, norm, 1e-5);
      EXPECT_GT(norm, clip) << "the test must clip";
      const auto held = model.weights_of("w");
      for (std::size_t i = 0; i < held.size(); ++i) EXPECT_NEAR(held[i], p[i], 2e-6) << "step " << step;
    }
  });
}

TEST(EngineOnAnyDevice, StepAveragesOverRanks) {
  const SgdOptions sgd{.lr = 1};
  on_ranks(4, [&](Communicator& comm) {
    ScriptedModel model(comm, {{.name = "w", .shape = {1}}}, {.stage = 2, .optimizer = sgd});
    model.edit = [&](int, std::int64_t, float) { return static_cast<float>(1 << comm.rank()); };
    const float before = model.weights_of("w")[0];
    const StepReport report = model.train(0);
    EXPECT_DOUBLE_EQ(report.grad_norm, 15.0 / 4);
    EXPECT_FLOAT_EQ(model.weights_of("w")[0], before - 0.01F * 15 / 4);
  });
}

TEST(EngineOnAnyDevice, SecondBackwardAddsItsGradients) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = stage, .optimizer = SgdOptions{}});
      for (int step = 0; step < 3; ++step) {  // on demand, recorded, replayed
        model.edit = [](int, std::int64_t, float) { return 1.0F; };
        const float before = model.weights_of("h.1.weight")[3];
        model.forward(model.all_units());
        model.backward(model.all_units(), step, 0);
        model.edit = [](int, std::int64_t, float) { return 2.0F; };
        model.forward(model.all_units());
        model.backward(model.all_units(), step, 1);
        model.engine().step(0.01);
        EXPECT_FLOAT_EQ(model.weights_of("h.1.weight")[3], before - 0.01F * 3) << "stage " << stage;
      }
      EXPECT_EQ(model.engine().report().trace_mismatches, 0);
    });
  }
}

TEST(EngineOnAnyDevice, Bf16AccumulationMustBeAnnounced) {
  on_ranks(1, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kBFloat16), {.stage = 2});
    model.forward(model.all_units());
    model.backward(model.all_units(), 0, 0);
    model.forward(model.all_units());
    const std::string error = message_of<ConfigError>([&] { model.backward(model.all_units(), 0, 1); });
    EXPECT_TRUE(says(error, "accumulate"));
    EXPECT_TRUE(says(error, "root"));
  });
}

// The flight ring records the number of steps.
TEST(EngineOnAnyDevice, RecordsTheNumberOfSteps) {
  RecordedCommunicator comm(std::move(make_in_process(1, std::chrono::seconds(60)).front()), flight_memory(8), {});
  const auto noted = [&] { return read_ring(comm.memory()).value().step; };
  ScriptedModel model(comm, {{.name = "w", .shape = {4}}}, {});
  EXPECT_EQ(noted(), std::nullopt) << "a program that never trains has no progress to judge";
  model.train(0);
  model.train(1);
  EXPECT_EQ(noted(), 2);
  EngineProgress progress = model.engine().states().progress();
  progress.steps = 40;  // load() does the same
  model.engine().states().set_progress(progress);
  EXPECT_EQ(noted(), 40);
  model.train(2);
  EXPECT_EQ(noted(), 41);
}

// ---- gradients that are missing ------------------------------------------------------------------------------------

TEST(EngineOnAnyDevice, SkipsParametersWithoutAnyGradient) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = stage, .optimizer = AdamWOptions{.weight_decay = 0.1}});
      ScriptedModel always(comm, small_specs(), {.stage = stage, .optimizer = AdamWOptions{.weight_decay = 0.1}});
      const int absent = model.param_named("h.1.weight");
      const auto constant = [](int, std::int64_t, float) { return 0.25F; };
      model.edit = constant;
      always.edit = constant;
      always.train(0);
      model.train(0);
      const auto before = model.weights_of("h.1.weight");
      model.has_gradient = [&](int param) { return param != absent; };
      model.train(1);
      EXPECT_EQ(model.weights_of("h.1.weight"), before) << "stage " << stage << ": not even weight decay applies";
      // Its moments and its step count did not change. Its third step equals the second step of a model whose gradients
      // were never missing.
      model.has_gradient = [](int) { return true; };
      model.train(2);
      always.train(1);
      EXPECT_EQ(model.weights_of("h.1.weight"), always.weights_of("h.1.weight"));
      EXPECT_NE(model.weights_of("h.1.bias"), always.weights_of("h.1.bias"));
    });
  }
}

// At least one rank has a gradient.
TEST(EngineOnAnyDevice, MissingGradientsCountAsZero) {
  for (int stage = 0; stage <= 2; ++stage) {
    on_ranks(3, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = stage, .optimizer = SgdOptions{}});
      model.edit = [](int, std::int64_t, float) { return 6.0F; };
      const int partial = model.param_named("h.1.bias");
      model.has_gradient = [&](int param) { return param != partial || comm.rank() == 1; };
      for (int step = 0; step < 3; ++step) {
        const float before = model.weights_of("h.1.bias")[2];
        const float other = model.weights_of("h.1.weight")[2];
        model.train(step);
        EXPECT_FLOAT_EQ(model.weights_of("h.1.bias")[2], before - 0.01F * 2) << "stage " << stage;
        EXPECT_FLOAT_EQ(model.weights_of("h.1.weight")[2], other - 0.01F * 6);
      }
    });
  }
}

// At stage 3, a unit that is complete early on only one rank is reduced between other gathers. The error names a rank.
TEST(EngineOnAnyDevice, ShardedGradientOnOneRankFails) {
  const auto ends = ends_of_ranks(3, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3});
    const int partial = model.param_named("h.1.bias");
    model.has_gradient = [&](int param) { return param != partial || comm.rank() == 1; };
    model.train(0);
  });
  for (const std::string& end : ends) EXPECT_TRUE(says(end, "rank "));
}

TEST(EngineOnAnyDevice, StepWithoutBackwardChangesNothing) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = stage});
      model.train(0);
      const auto before = model.weight_bits();
      const StepReport report = model.engine().step(0.01);
      EXPECT_EQ(report.grad_norm, 0);
      EXPECT_FALSE(report.skipped);
      EXPECT_EQ(model.weight_bits(), before) << "stage " << stage;
      model.train(1);
      EXPECT_NE(model.weight_bits(), before);
    });
  }
}

TEST(EngineOnAnyDevice, RejectsGradientsForFrozenParameters) {
  on_ranks(1, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 2});
    const std::vector<float> gradient(40, 1.0F);
    const int frozen = model.param_named("h.1.table");
    EXPECT_THROW(model.engine().add_gradient(frozen, reinterpret_cast<const std::byte*>(gradient.data())),
                 InternalError);
  });
}

TEST(EngineOnAnyDevice, FrozenUnitsKeepTheirBits) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(DType::kBFloat16), {.stage = stage});
      const auto before = model.weights_of("h.1.table");
      for (int step = 0; step < 3; ++step) model.train(step);
      EXPECT_EQ(model.weights_of("h.1.table"), before);
    });
  }
}

// ---- gradients that are not finite ----------------------------------------------------------------------------------

// The report names the parameter.
TEST(EngineOnAnyDevice, NonFiniteGradientSkipsTheStep) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      on_ranks(2, [&](Communicator& comm) {
        ScriptedModel model(comm, small_specs(), {.stage = stage, .clip = 1.0});
        model.train(0);
        const auto before = model.weight_bits();
        const int bad_param = model.param_named("h.2.weight");
        model.edit = [&](int param, std::int64_t element, float value) {
          return comm.rank() == 1 && param == bad_param && element == 40 ? bad : value;
        };
        const StepReport skipped = model.train(1);
        EXPECT_TRUE(skipped.skipped);
        EXPECT_EQ(skipped.bad_parameter, "h.2.weight");
        EXPECT_EQ(skipped.step, 1) << "skipped steps do not count";
        EXPECT_EQ(model.weight_bits(), before) << "stage " << stage;
        model.edit = [](int, std::int64_t, float value) { return value; };
        const StepReport next = model.train(2);
        EXPECT_FALSE(next.skipped);
        EXPECT_EQ(next.bad_parameter, "");
        EXPECT_EQ(next.step, 2);
        EXPECT_EQ(model.engine().report().skipped_steps, 1);
      });
    }
  }
}

TEST(EngineOnAnyDevice, OverflowingSumIsNotFinite) {
  on_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 2});
    model.edit = [](int param, std::int64_t element, float value) {
      return param == 0 && element == 0 ? 3e38F : value;
    };
    const StepReport report = model.train(0);
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(report.bad_parameter, "wte");
  });
}

TEST(EngineOnAnyDevice, RepeatedSkipsEndTheRun) {
  const auto ends = ends_of_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 1, .max_skipped_steps = 3});
    model.edit = [](int, std::int64_t, float) { return kInfinity; };
    EXPECT_TRUE(model.train(0).skipped);
    EXPECT_TRUE(model.train(1).skipped);
    model.edit = [](int, std::int64_t, float value) { return value; };
    EXPECT_FALSE(model.train(2).skipped) << "a finite gradient resets the count";
    model.edit = [](int, std::int64_t, float) { return kInfinity; };
    EXPECT_TRUE(model.train(3).skipped);
    EXPECT_TRUE(model.train(4).skipped);
    model.train(5);
  });
  for (const std::string& end : ends) EXPECT_TRUE(says(end, "3 steps in a row"));
}

// ---- trace mismatches ----------------------------------------------------------------------------------------------

// The step after a mismatch replays the trace of that mismatch.
TEST(EngineOnAnyDevice, CountsDeparturesThenReplays) {
  for (const MemoryBudget memory : {MemoryBudget{}, kMin}) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = 3, .device_memory = memory});
      std::vector<int> other = model.all_units();
      std::swap(other[1], other[2]);
      model.train(0);
      model.train(1);
      EXPECT_EQ(model.engine().report().trace_mismatches, 0) << "the first step has no trace to differ from";
      model.train(2, 1, other);
      EXPECT_EQ(model.engine().report().trace_mismatches, 1);
      model.train(3, 1, other);
      EXPECT_EQ(model.engine().report().trace_mismatches, 1) << "replayed";
      EXPECT_EQ(model.engine().report().sent_bytes_per_step, model.engine().report().planned_sent_bytes);
      model.train(4);
      EXPECT_EQ(model.engine().report().trace_mismatches, 2);
    });
  }
}

TEST(EngineOnAnyDevice, ShortAndLongStepsDepart) {
  on_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3});
    const auto all = model.all_units();
    const std::vector<int> fewer(all.begin(), all.end() - 2);
    model.train(0);
    model.train(1, 1, fewer);
    EXPECT_EQ(model.engine().report().trace_mismatches, 1);
    model.train(2);
    EXPECT_EQ(model.engine().report().trace_mismatches, 2);
  });
}

// The error names a rank.
TEST(EngineOnAnyDevice, OneDepartingRankFailsIfSharded) {
  const auto ends = ends_of_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3, .device_memory = kMin});
    std::vector<int> order = model.all_units();
    model.train(0, 1, order);
    if (comm.rank() == 1) std::swap(order[0], order[3]);
    model.train(1, 1, order);
  });
  for (const std::string& end : ends) EXPECT_TRUE(says(end, "rank "));
}

// All units stay gathered, so the ranks' collectives are equal. The exchange at the end of the step finds the mismatch.
TEST(EngineOnAnyDevice, StepFindsHiddenTraceMismatch) {
  const auto ends = ends_of_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3});
    std::vector<int> order = model.all_units();
    model.train(0, 1, order);
    model.forward(order);
    if (comm.rank() == 1) model.forward({order[0]});
    model.backward(order, 1, 0);
    model.engine().step(0.01);
  });
  for (const std::string& end : ends) {
    EXPECT_TRUE(says(end, "rank 1"));
    EXPECT_TRUE(says(end, "stages 0 to 2"));
  }
}

// If parameters are whole, each rank may use other units.
TEST(EngineOnAnyDevice, WholeParametersAllowDifferentUnits) {
  for (int stage = 0; stage <= 2; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = stage, .optimizer = SgdOptions{}});
      model.edit = [](int, std::int64_t, float) { return 2.0F; };
      const int skipped = model.unit_named("h.1");
      for (int step = 0; step < 5; ++step) {
        std::vector<int> order = model.all_units();
        // Ranks use different units at steps 1 and 3, in different orders.
        if (step % 2 == 1 && comm.rank() == 1) {
          std::erase(order, skipped);
          std::reverse(order.begin(), order.end());
        }
        const float before = model.weights_of("h.1.weight")[0];
        const float other = model.weights_of("h.2.weight")[0];
        model.train(step, 1, order);
        EXPECT_FLOAT_EQ(model.weights_of("h.1.weight")[0], before - 0.01F * (step % 2 == 1 ? 1 : 2))
            << "stage " << stage << " step " << step;
        EXPECT_FLOAT_EQ(model.weights_of("h.2.weight")[0], other - 0.01F * 2);
      }
    });
  }
}

// ---- min budgets: a unit is released only when all ranks know it ---------------------------------------------------

TEST(RankEngine, GradientMayBeginABackwardPass) {
  for (const MemoryBudget memory : {MemoryBudget{}, kMin}) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = 3, .device_memory = memory});
      for (int step = 0; step < 3; ++step) {
        const auto order = model.all_units();
        model.forward(order);
        // A bias that is added last: its gradient needs no parameter. The backward pass reads its unit afterwards.
        const std::vector<float> gradient(9, 1.0F);
        model.engine().add_gradient(model.param_named("ln_f"), reinterpret_cast<const std::byte*>(gradient.data()));
        model.has_gradient = [&](int param) { return param != model.param_named("ln_f"); };
        model.backward(order, step, 0);
        model.engine().step(0.01);
      }
    });
  }
}

// The unit that ends a backward pass may begin the next forward pass.
TEST(EngineOnAnyDevice, LastUnitMayBeginTheForward) {
  on_ranks(2, [](Communicator& comm) {
    AttachOptions options{.stage = 3, .accumulate = 3, .device_memory = kMin};
    ScriptedModel model(comm, {{.name = "w", .shape = {33}}}, options);
    for (int step = 0; step < 3; ++step) model.train(step, 3);
    const EngineReport report = model.engine().report();
    EXPECT_EQ(report.sent_bytes_per_step, sent_bytes(model.units(), 2, place(3, Reduce::kAuto, 3)));
  });
}

TEST(EngineOnAnyDevice, EvaluationWithinAStepLosesNothing) {
  for (const MemoryBudget memory : {MemoryBudget{}, kMin}) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = 3, .device_memory = memory});
      ScriptedModel plain(comm, small_specs(), {.stage = 3, .device_memory = memory});
      for (int step = 0; step < 4; ++step) {
        model.forward(model.all_units());
        for (const int unit : model.all_units()) const GatheredUnit in_use = model.engine().use(unit, Use::kUntraced);
        model.backward(model.all_units(), step, 0);
        model.engine().step(0.01);
        plain.train(step);
        EXPECT_EQ(model.weight_bits(), plain.weight_bits());
      }
      EXPECT_EQ(model.engine().report().trace_mismatches, 0);
    });
  }
}

TEST(RankEngine, EvaluationBytesAreNotTheSteps) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), {.stage = stage, .device_memory = kMin});
      for (int step = 0; step < 3; ++step) {
        model.train(step);
        for (const int unit : model.all_units()) const GatheredUnit in_use = model.engine().use(unit, Use::kUntraced);
      }
      const EngineReport report = model.engine().report();
      EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << "stage " << stage;
      EXPECT_EQ(report.trace_mismatches, 0);
    });
  }
}

// There are more units than a transport has room for works in flight. Gathers stay open in each possible way.
TEST(EngineOnAnyDevice, HundredsOfUnitsFitTheTransport) {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 160; ++i) {
    specs.push_back({.name = "h." + std::to_string(i) + ".w", .shape = {20}, .trainable = i % 64 < 32 || i >= 128});
  }
  const std::int64_t one = 20 * 4 + 48;  // padded to two shards of 64 bytes
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      const auto units = make_units(specs, {});
      const std::int64_t state = state_bytes(units, 2, place(stage, Reduce::kAuto, 1), fp32_states(2)).total();
      const MemoryBudget all_but_two{.kind = MemoryBudget::Kind::kBytes, .bytes = state + 2 * one + 158 * one};
      ScriptedModel model(comm, specs, {.stage = stage, .device_memory = all_but_two});
      for (int step = 0; step < 3; ++step) model.train(step);
      // A forward pass of one unit leaves the gathers of all other units open.
      for (int step = 3; step < 6; ++step) model.train(step, 1, {159});
      EXPECT_EQ(model.engine().report().trace_mismatches, 1);
    });
  }
}

// ---- writing --------------------------------------------------------------------------------------------------------

TEST(RankEngine, TrainingContinuesFromWrittenUnits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      on_ranks(2, [&](Communicator& comm) {
        ScriptedModel model(comm, small_specs(dtype), {.stage = stage, .device_memory = kMin});
        for (int step = 0; step < 2; ++step) model.train(step);
        const int unit = model.unit_named("h.1");
        const auto before = model.weights_of("h.1.weight");
        {
          const GatheredUnit in_use = model.engine().use(unit, Use::kUntraced);
          in_use.mark_written();
          store_element(in_use.data(), dtype, 1, 0.5F);
        }
        const auto after = model.weights_of("h.1.weight");
        EXPECT_EQ(after[1], 0.5F);
        EXPECT_EQ(after[0], before[0]) << "elements that were not written keep their full precision";
        const double checksum = model.checksum();
        model.forward({unit});
        EXPECT_NE(model.checksum(), checksum);
        model.backward({unit}, 2, 0);
        model.engine().step(0.01);
        EXPECT_NE(model.weights_of("h.1.weight")[1], 0.5F) << "trained on";
        EXPECT_NEAR(model.weights_of("h.1.weight")[1], 0.5F, 0.02);
      });
    }
  }
}

// Rank 1 has not gathered the last update when rank 0 writes, so rank 0 must wait. Rank 1's sleep limits how long the
// test takes, and does not decide its result.
TEST(RankEngine, AWriterWaitsForLateReaders) {
  for (int stage = 1; stage <= 3; ++stage) {
    std::atomic<bool> written = false;
    on_ranks(2, [&](Communicator& comm) {
      // The unit is so large that peers read it in place.
      ScriptedModel model(comm, {{.name = "w", .shape = {8192}}}, {.stage = stage});
      model.train(0);
      if (comm.rank() == 1) {
        for (int i = 0; i < 50 && !written; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      const GatheredUnit in_use = model.engine().use(0, Use::kUntraced);
      auto* data = reinterpret_cast<float*>(in_use.data());
      const float before = data[0];
      in_use.mark_written();
      data[0] = before * 2;  // in rank 0's own shard
      if (comm.rank() == 0) written = true;
      EXPECT_LT(std::abs(before), 1.5F);
      std::vector<float> seen(2);
      comm.all_gather(std::as_bytes(std::span(&before, 1)), std::as_writable_bytes(std::span(seen)), {}).wait();
      EXPECT_EQ(seen[0], seen[1]) << "stage " << stage << ": rank 1 read values that rank 0 had changed";
    });
  }
}

}  // namespace
}  // namespace zero
