// Each crossing, wait and sum of a pipelined step counts: without it, a test sees other bits, or an error names it.
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/comm/board/in_process.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/support/tier.h"
#include "tests/torch/pipeline/mutated_communicator.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using tests::Change;
using tests::MutableOperation;
using tests::Mutation;

constexpr int kWorld = 4, kPositions = 2;  // two lines
constexpr milliseconds kPatient{60000}, kHasty{400};

struct Result {
  std::vector<double> losses, norms;
  std::map<std::string, torch::Tensor> weights;
};

struct Ran {
  std::vector<std::string> errors;
  std::vector<Result> results;                        // by rank
  std::vector<std::vector<MutableOperation>> seen{};  // by rank
  bool is_void = false;                               // the mutation had no effect

  bool differs_from(const Ran& other) const {
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      const Result& mine = results[rank];
      const Result& theirs = other.results[rank];
      if (mine.losses != theirs.losses || mine.norms != theirs.norms) return true;
      for (const auto& [name, tensor] : mine.weights)
        if (!torch::equal(tensor, theirs.weights.at(name))) return true;
    }
    return false;
  }
};

// Three steps. The mutation is made in the second, by rank `victim`.
Ran train(const AttachOptions& options, PassOrder order, milliseconds timeout, int victim, const Mutation& mutation) {
  Ran ran;
  ran.results.resize(kWorld);
  std::vector<Mutation> mutations(kWorld);
  mutations[static_cast<std::size_t>(victim)] = mutation;
  std::vector<tests::Subject> subjects;
  for (int rank = 0; rank < kWorld; ++rank) {
    torch::manual_seed(7);
    subjects.push_back(tests::tied_net());
  }
  auto communicators = make_in_process(kWorld, timeout);
  std::vector<std::string> errors(kWorld);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([&, rank] {
      torch::set_num_threads(1);
      try {
        World world(std::make_unique<tests::MutatedCommunicator>(std::move(communicators[rank]), mutations[rank]),
                    kWorld);
        Result& result = ran.results[rank];
        const int line = world.rank() % (kWorld / kPositions);
        // One value crosses. A cut before an addition sends both of its terms, which may change places.
        const PipelineOptions pipeline{.pipeline = kPositions, .schedule = order, .first_units = {"blocks.1"}};
        PipelineEngine engine = attach_pipeline(*subjects[rank].module, world, options, pipeline);
        for (int step = 0; step < 3; ++step) {
          mutations[rank].is_on = step == 1;
          const std::vector<double> losses =
              engine.passes([&](int micro) { return subjects[rank].loss(step, micro, line); }, options.accumulate);
          result.losses.insert(result.losses.end(), losses.begin(), losses.end());
          StepLimits limits;
          if (options.leaves > 0) limits.leaf_losses = losses;
          const StepReport report = engine.step(1e-2, limits);
          result.norms.push_back(report.grad_norm);
          if (options.leaves > 0) result.losses.push_back(report.loss);
          mutations[rank].is_on = false;
        }
        engine.for_each_parameter(
            [&](const std::string& name, const torch::Tensor& tensor) { result.weights[name] = tensor.clone(); });
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors)
    if (!error.empty()) ran.errors.push_back(error);
  ran.is_void = mutations[static_cast<std::size_t>(victim)].is_void;
  for (Mutation& each : mutations) ran.seen.push_back(std::move(each.seen));
  return ran;
}

struct Count {
  int bits = 0, errors = 0, voids = 0;
  std::vector<std::string> survived{};
};

// Mutates a sample of the operations of the ranks of line 0; the full tier takes all.
Count mutate_each(const AttachOptions& options, PassOrder order) {
  const Ran usual = train(options, order, kPatient, 0, {});
  EXPECT_EQ(usual.errors, std::vector<std::string>{});
  EXPECT_FALSE(train(options, order, kPatient, 0, {}).differs_from(usual));
  Count count;
  Sweep sweep(5);
  for (const int victim : {0, kWorld / kPositions}) {
    const std::vector<MutableOperation>& operations = usual.seen[static_cast<std::size_t>(victim)];
    for (std::size_t number = 0; number < operations.size(); ++number) {
      for (const Change change : operations[number].changes) {
        if (!sweep.takes_next()) continue;
        const Ran ran = train(options, order, kHasty, victim, {static_cast<int>(number), change});
        if (!ran.errors.empty()) {
          ++count.errors;
        } else if (ran.differs_from(usual)) {
          ++count.bits;
        } else if (ran.is_void) {
          ++count.voids;
        } else {
          count.survived.push_back(
              fmt::format("rank {}, operation {}: {} {}", victim, number, operations[number].text, name_of(change)));
        }
      }
    }
  }
  std::cout << fmt::format("{}: {} mutations changed bits, {} ended with an error, {} had no effect, {} survived\n",
                           zero::name_of(order), count.bits, count.errors, count.voids, count.survived.size());
  return count;
}

TEST(MutatedStepsSlow, EachOperationCounts) {
  const Count count = mutate_each({.stage = 2, .clip = 0.5, .accumulate = 2}, PassOrder::kOneForwardOneBackward);
  EXPECT_EQ(count.survived, std::vector<std::string>{});
  EXPECT_GT(count.bits, 0);
  EXPECT_GT(count.errors, 0);
}

TEST(MutatedStepsSlow, EachOperationOfSplitBackwardCounts) {
  const Count count = mutate_each({.stage = 3, .clip = 0.5, .accumulate = 2}, PassOrder::kZbH1);
  EXPECT_EQ(count.survived, std::vector<std::string>{});
  EXPECT_GT(count.bits, 0);
  EXPECT_GT(count.errors, 0);
}

// Each line has three of six leaves: no micro-batch is idle, and partial sums are merged.
TEST(MutatedStepsSlow, EachOperationOfLeavesCounts) {
  const Count count = mutate_each({.stage = 2, .clip = 0.5, .leaves = 6}, PassOrder::kOneForwardOneBackward);
  EXPECT_EQ(count.survived, std::vector<std::string>{});
  EXPECT_GT(count.bits, 0);
  EXPECT_GT(count.errors, 0);
}

}  // namespace
}  // namespace zero
