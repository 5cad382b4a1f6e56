#include "zero/serve/push_server.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/serve/beside.h"
#include "tests/serve/served_run.h"
#include "tests/support/message_of.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using Kind = PushAction::Kind;

AttachOptions with(const SyncPlan& plan, AttachOptions options = {}) {
  options.sync = plan;
  return options;
}

// The end of each rank of a served run: "" or the text of its exception.
std::vector<std::string> ends_of_run(const AttachOptions& options, int workers, const TrainedClocks& run,
                                     TrainedBits& bits) {
  return ends_of_ranks(options.sync.servers + workers, [&](Communicator& comm) {
    options.sync.is_server(comm.rank()) ? serve(comm, options, small_specs(), run, bits)
                                        : work(comm, options, small_specs(), run);
  });
}

// One server and one worker train like a single rank.
TEST(PushServer, OneServerAndWorkerMatchRank) {
  const TrainedClocks run{.clocks = 5};
  const TrainedBits alone = plain_run({.clip = 0.5}, 1, small_specs(), run);
  for (const SyncMode mode : {SyncMode::kSync, SyncMode::kStale, SyncMode::kAsync}) {
    const TrainedBits served = served_run(with({.mode = mode, .servers = 1}, {.clip = 0.5}), 1, small_specs(), run);
    EXPECT_EQ(served.weights, alone.weights) << name_of(mode);
    EXPECT_EQ(served.losses, alone.losses) << name_of(mode);
    EXPECT_EQ(served.norms, alone.norms) << name_of(mode);
  }
}

TEST(PushServer, ZeroStalenessMatchesStageThree) {
  const TrainedClocks run{.clocks = 4};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const auto& [workers, servers] : {std::pair{2, 1}, {3, 1}, {2, 2}}) {
      const AttachOptions clipped{.clip = 0.5};
      const TrainedBits plain = plain_run(clipped, workers, small_specs(dtype), run);
      const TrainedBits served =
          served_run(with({.mode = SyncMode::kStale, .servers = servers}, clipped), workers, small_specs(dtype), run);
      const std::string where = fmt::format("{}, {} workers, {} servers", name_of(dtype), workers, servers);
      EXPECT_EQ(served.weights, plain.weights) << where;
      EXPECT_EQ(served.losses, plain.losses) << where;
      EXPECT_EQ(served.norms, plain.norms) << where;
      for (const double norm : plain.norms) EXPECT_GT(norm, 0.5) << "the test must clip";
    }
  }
}

TEST(PushServer, WorkerSumsMicroBatches) {
  const TrainedClocks run{.clocks = 3};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool average : {false, true}) {
      const AttachOptions options{.reduce = Reduce::kLast, .accumulate = 3, .average_micro_batches = average};
      EXPECT_EQ(served_run(with({.servers = 1}, options), 2, small_specs(dtype), run).weights,
                plain_run(options, 2, small_specs(dtype), run).weights)
          << name_of(dtype);
    }
  }
}

TEST(PushServer, EveryOptimizerMatchesStageThree) {
  const TrainedClocks run{.clocks = 3};
  const std::vector<OptimizerOptions> optimizers{SgdOptions{.momentum = 0.9}, LambOptions{}, MuonOptions{},
                                                 AdamW8bitOptions{}, AdafactorOptions{}};
  for (const OptimizerOptions& optimizer : optimizers) {
    const AttachOptions options{.optimizer = optimizer};
    EXPECT_EQ(served_run(with({.servers = 2}, options), 2, small_specs(), run).weights,
              plain_run(options, 2, small_specs(), run).weights)
        << name_of(optimizer);
  }
}

TEST(PushServer, HostAndDiskStatesKeepBits) {
  const TrainedClocks run{.clocks = 4};
  const SyncPlan plan{.mode = SyncMode::kStale, .servers = 2, .staleness = 1};
  AttachOptions away = with(plan);
  away.offload = {
      .fractions = {.parameter = {.disk = 1}, .gradient = {.host = 0.5}, .optimizer = {.host = 0.4, .disk = 0.6}},
      .disk = {"/tmp"}};
  EXPECT_EQ(served_run(away, 2, small_specs(), run).weights, served_run(with(plan), 2, small_specs(), run).weights);
}

// The expected weights come from plain loops. Each gradient uses the weights of version max(0, clock - staleness). A
// staleness of 1 equals a delayed update.
TEST(PushServer, StaleGradientHasStatedVersion) {
  constexpr int kWorkers = 2;
  for (const int staleness : {1, 2}) {
    const TrainedClocks run{.clocks = 6};
    const std::vector<ParamSpec> specs{{.name = "weight", .shape = {3, 5}}};
    const AttachOptions options = with({.mode = SyncMode::kStale, .servers = 1, .staleness = staleness},
                                       {.optimizer = SgdOptions{.momentum = 0.9, .weight_decay = 0}});
    std::vector<std::vector<double>> versions(1);
    for (int i = 0; i < 15; ++i) versions[0].push_back(noise(7, 0, static_cast<std::uint64_t>(i)));
    std::vector<double> momentum(15, 0);
    for (std::int64_t clock = 0; clock < run.clocks; ++clock) {
      const auto& read = versions[static_cast<std::size_t>(std::max<std::int64_t>(0, clock - staleness))];
      std::vector<double> next = versions.back();
      for (std::size_t i = 0; i < 15; ++i) {
        double gradient = 0;
        for (int worker = 0; worker < kWorkers; ++worker)
          gradient += 0.5 * read[i] + noise(static_cast<std::uint64_t>(clock * 16 * 64 + worker), 0, i);
        gradient /= kWorkers;
        momentum[i] = clock == 0 ? gradient : 0.9 * momentum[i] + gradient;
        next[i] -= run.lr(clock) * momentum[i];
      }
      versions.push_back(std::move(next));
    }
    const TrainedBits served = served_run(options, kWorkers, specs, run);
    for (std::size_t i = 0; i < 15; ++i)
      EXPECT_NEAR(std::bit_cast<float>(served.weights[i]), versions.back()[i], 1e-5) << staleness << ", " << i;
  }
}

// An engine with delayed updates is compared with workers whose weights are one clock old. Gradients depend on the
// weights.
TEST(PushServer, StalenessOneMatchesDelayedUpdate) {
  const TrainedClocks run{.clocks = 6, .lr = [](std::int64_t /*clock*/) { return 0.1; }};
  const AttachOptions sgd{.optimizer = SgdOptions{.momentum = 0.9}};
  AttachOptions delayed = sgd;
  delayed.delayed_update = true;
  delayed.exact_steps = 0;
  for (const int workers : {1, 2}) {
    const auto late = plain_run(delayed, workers, small_specs(), run).weights;
    const auto exact = plain_run(sgd, workers, small_specs(), run).weights;
    const auto served =
        served_run(with({.mode = SyncMode::kStale, .servers = 1, .staleness = 1}, sgd), workers, small_specs(), run)
            .weights;
    ASSERT_EQ(served.size(), late.size());
    float apart = 0;
    for (std::size_t i = 0; i < late.size(); ++i) {
      EXPECT_NEAR(std::bit_cast<float>(served[i]), std::bit_cast<float>(late[i]), 1e-5) << workers << ", " << i;
      apart = std::max(apart, std::abs(std::bit_cast<float>(late[i]) - std::bit_cast<float>(exact[i])));
    }
    EXPECT_GT(apart, 1e-3F) << "an update that is one step late is not exact";
  }
}

// Random delays of workers, by seed.
TrainedClocks jittered(std::int64_t clocks, std::uint64_t seed) {
  return {.clocks = clocks, .before = [seed](int worker, std::int64_t clock) {
            const auto turns = std::mt19937_64(seed * 1000 + static_cast<std::uint64_t>(worker * 100 + clock))() % 200;
            for (std::uint64_t turn = 0; turn < turns; ++turn) std::this_thread::yield();
          }};
}

TEST(PushServer, ClockLimitBoundsAsynchronousAge) {
  constexpr std::int64_t kWorkers = 3, kStaleness = 1;
  const AttachOptions options = with({.mode = SyncMode::kAsync, .servers = 2, .staleness = kStaleness});
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const TrainedBits served = served_run(options, kWorkers, small_specs(), jittered(8, seed));
    std::int64_t updates = 0;
    for (const PushAction& action : served.actions) {
      if (action.kind != Kind::kUpdate) continue;
      ++updates;
      EXPECT_LE(action.age, (kWorkers - 1) * (2 * kStaleness + 1));
    }
    EXPECT_EQ(updates, 8 * kWorkers) << "no push is lost";
  }
}

// Worker 2 pauses once, with its weights, in its first clock from 2 on. With a quorum it may skip clocks.
TrainedBits served_beside(const AttachOptions& options, std::int64_t clocks, Beside& beside) {
  bool stood = false;  // used only by worker 2
  return served_run(options, 3, small_specs(), {.clocks = clocks, .before = [&](int worker, std::int64_t clock) {
                                                  beside.at(worker, clock);
                                                  if (worker != 2 || clock < 2 || std::exchange(stood, true)) return;
                                                  beside.stand();
                                                }});
}

// The run takes the worker back.
TEST(PushServer, QuorumContinuesBesideStalledWorker) {
  Beside beside(20);
  const TrainedBits served = served_beside(with({.servers = 2, .quorum = 2}), 40, beside);
  EXPECT_GE(beside.ahead(), 20);
  EXPECT_EQ(served.losses.size(), 40U);
  EXPECT_TRUE(std::ranges::any_of(served.actions, [](const PushAction& action) {
    return action.kind == Kind::kDrop && action.workers == std::vector<int>{2};
  })) << "its old gradient is dropped";
  EXPECT_GE(last_push(2, served.events), 20) << "it continues at the newest clock";
}

// The run takes the worker back.
TEST(PushServer, AsynchronousRunContinuesBesideStalledWorker) {
  Beside beside(15, true);
  const TrainedBits served =
      served_beside(with({.mode = SyncMode::kAsync, .servers = 2, .staleness = 100}), 20, beside);
  EXPECT_GE(beside.ahead(), 15);
  EXPECT_EQ(last_push(2, served.events), 19);
  std::int64_t updates = 0, oldest = 0;
  for (const PushAction& action : served.actions) {
    if (action.kind != Kind::kUpdate) continue;
    ++updates;
    oldest = std::max(oldest, action.age);
  }
  EXPECT_EQ(updates, 3 * 20) << "worker 2 also does all of its clocks, later";
  EXPECT_GE(oldest, 12) << "its gradient is older than a worker's pushes of clocks 3 to 14";
}

// Workers sleep at random, and one stops for longer, by seed.
TrainedClocks sleepy(std::int64_t clocks, std::uint64_t seed) {
  return {.clocks = clocks, .before = [clocks, seed](int worker, std::int64_t clock) {
            const auto drawn = std::mt19937_64(seed * 1000 + static_cast<std::uint64_t>(worker * 100 + clock))();
            const bool stops = std::mt19937_64(seed)() % 3 == static_cast<std::uint64_t>(worker) &&
                               static_cast<std::int64_t>(seed) % clocks == clock;
            std::this_thread::sleep_for(std::chrono::microseconds(stops ? 30000 : drawn % 1500));
          }};
}

TEST(PushServer, StaleBitsIgnoreTime) {
  for (const int staleness : {1, 2, 3}) {
    const AttachOptions options = with({.mode = SyncMode::kStale, .servers = 2, .staleness = staleness});
    const TrainedBits first = served_run(options, 3, small_specs(), {.clocks = 8});
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      for (const TrainedClocks& late : {jittered(8, seed), sleepy(8, seed)}) {
        const TrainedBits served = served_run(options, 3, small_specs(), late);
        EXPECT_EQ(served.weights, first.weights) << staleness << ", " << seed;
        EXPECT_EQ(served.losses, first.losses) << staleness << ", " << seed;
      }
    }
  }
}

// Workers sleep and stop at random.
TEST(PushServer, ReplayKeepsBitsUnderDelays) {
  const int trials = num_trials("ZERO_REPLAYS", 3, 20);
  const std::vector<AttachOptions> all{with({.mode = SyncMode::kAsync, .servers = 1, .staleness = 3}),
                                       with({.servers = 1, .quorum = 2})};
  for (int trial = 0; trial < trials; ++trial) {
    const AttachOptions& options = all[static_cast<std::size_t>(trial) % 2];
    const auto seed = static_cast<std::uint64_t>(trial);
    const TrainedBits recorded = served_run(options, 3, small_specs(), sleepy(6, seed));
    TrainedClocks again = sleepy(6, seed + 1000);
    again.replayed = recorded.events;
    const TrainedBits replayed = served_run(options, 3, small_specs(), again);
    EXPECT_EQ(replayed.events, recorded.events) << trial;
    EXPECT_EQ(replayed.weights, recorded.weights) << trial;
    EXPECT_EQ(replayed.losses, recorded.losses) << trial;
  }
}

TEST(PushServer, ReplayKeepsRecordedBits) {
  const AttachOptions options = with({.mode = SyncMode::kAsync, .servers = 2, .staleness = 3});
  const int trials = num_trials("ZERO_REPLAYS", 5, 20);
  for (int trial = 0; trial < trials; ++trial) {
    const auto seed = static_cast<std::uint64_t>(trial);
    const TrainedBits recorded = served_run(options, 3, small_specs(), jittered(6, seed));
    TrainedClocks again = jittered(6, seed + 1000);  // other workers are late
    again.replayed = recorded.events;
    const TrainedBits replayed = served_run(options, 3, small_specs(), again);
    EXPECT_EQ(replayed.events, recorded.events) << trial;
    EXPECT_EQ(replayed.weights, recorded.weights) << trial;
    EXPECT_EQ(replayed.losses, recorded.losses) << trial;
  }
}

// The expected weights are computed by hand, in the head's order. Each gradient uses the weights that its worker last
// received, and its weight depends on its age. The compensation uses the updates since these weights.
TEST(PushServer, CompensatesGradientsForLaterUpdates) {
  const TrainedClocks run{.clocks = 6};
  const std::vector<ParamSpec> specs{{.name = "weight", .shape = {3, 5}}};
  SyncPlan plan{.mode = SyncMode::kAsync, .servers = 2, .staleness = 2, .compensation = 0.8};
  for (const auto& [accumulate, exponent] : {std::pair{1, 0.0}, {1, 0.5}, {1, 1.0}, {1, 2.0}, {2, 1.0}}) {
    plan.stale_lr = exponent;
    const AttachOptions options = with(
        plan,
        {.optimizer = SgdOptions{}, .reduce = Reduce::kLast, .accumulate = accumulate, .average_micro_batches = true});
    const TrainedBits served = served_run(options, 2, specs, run);
    std::vector<double> weights;
    for (int i = 0; i < 15; ++i) weights.push_back(noise(7, 0, static_cast<std::uint64_t>(i)));
    std::vector<std::vector<double>> pulled(2);
    double moved = 0;
    for (const PushAction& action : served.actions) {
      const int worker = action.workers.front();
      std::vector<double>& read = pulled[static_cast<std::size_t>(worker)];
      if (action.kind == Kind::kAnswer) read = weights;
      if (action.kind != Kind::kUpdate) continue;
      for (std::size_t i = 0; i < 15; ++i) {
        double gradient = 0;
        for (int micro = 0; micro < accumulate; ++micro) {
          const auto moment = static_cast<std::uint64_t>((action.clock * 16 + micro) * 64 + worker);
          gradient += (0.5 * read[i] + noise(moment, 0, i)) / accumulate;
        }
        const double correction = plan.compensation * gradient * gradient * (weights[i] - read[i]);
        moved += std::abs(correction);
        const double lr = run.lr(action.clock) / std::pow(1.0 + static_cast<double>(action.age), exponent);
        weights[i] -= lr * (gradient + correction);
      }
    }
    EXPECT_GT(moved, 1e-3) << "at least one gradient must be old";
    for (std::size_t i = 0; i < 15; ++i)
      EXPECT_NEAR(std::bit_cast<float>(served.weights[i]), weights[i], 1e-5)
          << accumulate << ", " << exponent << ", " << i;
  }
}

TEST(PushServer, CompensatedRunReplaysToTheBit) {
  const AttachOptions options =
      with({.mode = SyncMode::kAsync, .servers = 2, .staleness = 3, .compensation = 1}, {.clip = 0.5});
  const TrainedBits recorded = served_run(options, 3, small_specs(DType::kBFloat16), jittered(5, 1));
  TrainedClocks again = jittered(5, 1001);
  again.replayed = recorded.events;
  EXPECT_EQ(served_run(options, 3, small_specs(DType::kBFloat16), again).weights, recorded.weights);
  AttachOptions without = options;
  without.sync.compensation = 0;
  EXPECT_NE(served_run(without, 3, small_specs(DType::kBFloat16), again).weights, recorded.weights);
}

TEST(PushServer, RefusesLogOfAnotherRun) {
  const AttachOptions options = with({.mode = SyncMode::kAsync, .servers = 1});
  TrainedBits bits;
  const TrainedClocks run{.clocks = 2, .replayed = {{.worker = 0, .clock = 1}}};
  const std::vector<std::string> ends = ends_of_run(options, 1, run, bits);
  EXPECT_TRUE(says(ends[0], "--replay = worker 0, clock 1: this run has reached a different event")) << ends[0];
}

TEST(PushServer, RefusesTruncatedLogAtItsEnd) {
  const AttachOptions options = with({.mode = SyncMode::kAsync, .servers = 1});
  TrainedClocks run{.clocks = 3};
  run.replayed = served_run(options, 1, small_specs(), run).events;
  ASSERT_EQ(run.replayed.size(), 3U);
  run.replayed.pop_back();
  TrainedBits bits;
  const std::vector<std::string> ends = ends_of_run(options, 1, run, bits);
  EXPECT_TRUE(says(ends[0], "--replay = clock 2: the log has no more events, and the run has not ended")) << ends[0];
}

TEST(PushServer, AsynchronousRunSurvivesLeavingWorker) {
  const AttachOptions options = with({.mode = SyncMode::kAsync, .servers = 2, .staleness = 1});
  const TrainedClocks run{.clocks = 6, .before = [](int worker, std::int64_t clock) {
                            if (worker == 1 && clock == 2) throw std::runtime_error("this worker ends");
                          }};
  TrainedBits bits;
  const std::vector<std::string> ends = ends_of_run(options, 3, run, bits);
  EXPECT_EQ(ends, (std::vector<std::string>{"", "", "", "this worker ends", ""}));
  EXPECT_EQ(bits.losses.size(), 6U);
}

// The error names the worker.
TEST(PushServer, LeavingWorkerEndsStaleRun) {
  const AttachOptions options = with({.mode = SyncMode::kStale, .servers = 1, .staleness = 1});
  const TrainedClocks run{.clocks = 6, .before = [](int worker, std::int64_t clock) {
                            if (worker == 1 && clock == 2) throw std::runtime_error("this worker ends");
                          }};
  TrainedBits bits;
  const std::vector<std::string> ends = ends_of_run(options, 2, run, bits);
  EXPECT_TRUE(says(ends[0], "rank 2")) << ends[0];
  EXPECT_TRUE(says(ends[0], "every clock needs it"));
}

// Worker 2 is lost midway. Two of three workers are a quorum and continue.
TEST(PushServer, QuorumContinuesWithoutWorker) {
  const AttachOptions options = with({.servers = 1, .quorum = 2});
  const TrainedClocks run{.clocks = 6, .before = [](int worker, std::int64_t clock) {
                            if (worker == 2 && clock == 2) throw std::runtime_error("this worker ends");
                          }};
  TrainedBits bits;
  const std::vector<std::string> ends = ends_of_run(options, 3, run, bits);
  EXPECT_EQ(ends[0] + ends[1] + ends[2], "");
  int updates = 0;
  for (const PushAction& action : bits.actions) {
    if (action.kind != Kind::kUpdate) continue;
    ++updates;
    EXPECT_EQ(action.workers.size(), 2U);
  }
  EXPECT_EQ(updates, 6);
}

TEST(PushServer, BytesAreThoseOfTheFormula) {
  const std::vector<ParamSpec> specs{{.name = "weight", .shape = {64, 32}}};
  const AttachOptions options = with({.mode = SyncMode::kSync, .servers = 2});
  constexpr std::int64_t kBytes = 4 * 64 * 32, kClocks = 3;
  TrainedBits bits;
  on_ranks(4, [&](Communicator& comm) {
    const TrainedClocks run{.clocks = kClocks};
    options.sync.is_server(comm.rank()) ? serve(comm, options, specs, run, bits) : work(comm, options, specs, run);
    const Traffic traffic = comm.traffic();
    if (options.sync.is_server(comm.rank())) {  // each server has half of the model and two workers
      EXPECT_EQ(traffic.received_bytes, kClocks * kBytes);
      EXPECT_EQ(traffic.sent_bytes, kClocks * kBytes);
    } else {
      EXPECT_EQ(traffic.sent_bytes, kClocks * kBytes);
      EXPECT_EQ(traffic.received_bytes, kClocks * kBytes) << "after the last push no weights are sent";
    }
  });
}

TEST(PushServer, RefusesWhatServersDoNotDo) {
  const auto refusal = [](AttachOptions options) {
    options.sync = {.servers = 1};
    return message_of<ConfigError>([&] { worker_options(options); });
  };
  EXPECT_TRUE(says(refusal({.stage = 2}), "zero.stage = 2"));
  EXPECT_TRUE(says(refusal({.group = 2}), "zero.group = 2"));
  EXPECT_TRUE(says(refusal({.local = LocalSteps{}}), "sync.servers = 1"));
  EXPECT_TRUE(says(refusal({.delayed_update = true}), "zero.delayed_update = true"));
  EXPECT_TRUE(says(refusal({.dtype = DType::kFloat16}), "train.dtype = fp16"));
}

}  // namespace
}  // namespace zero
