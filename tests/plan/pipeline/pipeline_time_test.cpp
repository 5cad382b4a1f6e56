#include "zero/plan/pipeline/pipeline_time.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr int kMostRanks = 16, kMostMicros = 64;

PipelineTime time_of(PassOrder order, int ranks, int micros, const SectionCosts& costs, int sections = 0) {
  if (sections == 0) sections = default_sections(order, ranks);
  return simulate(build_pipeline(order, ranks, sections, micros), costs_of(costs, sections), {});
}

// Calls check(ranks, micros) for a sample of all pairs with micros >= least(ranks); the full tier takes all pairs.
template <typename Least, typename Check>
void for_ranks_and_micros(Least least, Check check) {
  Sweep sweep(7);
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (int micros = 1; micros <= kMostMicros; ++micros)
      if (micros >= least(ranks) && sweep.takes_next()) check(ranks, micros);
  }
}

constexpr auto kAnyMicros = [](int) { return 1; };

TEST(PipelineTime, GpipeBubbleIsTheFormula) {
  for_ranks_and_micros(kAnyMicros, [](int p, int k) {
    const PipelineTime time = time_of(PassOrder::kGpipe, p, k, {.forward = 3, .inputs = 4, .weights = 5});
    ASSERT_EQ(time.bubble, (p - 1) * (3 + 4 + 5)) << p << " ranks, " << k << " micro-batches";
    for (const RankTime& rank : time.ranks) ASSERT_EQ(rank.in_flight, k);
  });
}

TEST(PipelineTime, OneForwardOneBackwardEqualsFormula) {
  for_ranks_and_micros(kAnyMicros, [](int p, int k) {
    const PipelineTime time =
        time_of(PassOrder::kOneForwardOneBackward, p, k, {.forward = 1, .inputs = 1, .weights = 1});
    ASSERT_EQ(time.bubble, (p - 1) * 3) << p << " ranks, " << k << " micro-batches";
    for (int rank = 0; rank < p; ++rank)
      ASSERT_EQ(time.ranks[static_cast<std::size_t>(rank)].in_flight, std::min(k, p - rank)) << p << ", " << k;
  });
}

// v sections on each rank take as long as one section of the other orders.
TEST(PipelineTime, InterleavedBubbleIsTheFormula) {
  for (const int v : {2, 3, 4}) {
    for_ranks_and_micros(kAnyMicros, [v](int p, int k) {
      if (k % p != 0) return;
      const PipelineTime time =
          time_of(PassOrder::kInterleaved, p, k, {.forward = 1, .inputs = 1, .weights = 1}, v * p);
      ASSERT_EQ(time.ranks.front().busy, 3 * v * k);
      ASSERT_EQ(time.bubble, (p - 1) * 3) << p << " ranks, " << k << " micro-batches, " << v << " sections a rank";
      for (int rank = 0; rank < p; ++rank)
        ASSERT_EQ(time.ranks[static_cast<std::size_t>(rank)].in_flight,
                  std::min(v * k, 2 * (p - rank - 1) + (v - 1) * p + 1));
    });
  }
}

TEST(PipelineTime, ZbH1BubbleIsTheFormula) {
  for_ranks_and_micros([](int p) { return p; },
                       [](int p, int k) {
                         const PipelineTime time =
                             time_of(PassOrder::kZbH1, p, k, {.forward = 1, .inputs = 1, .weights = 1});
                         ASSERT_EQ(time.bubble, p - 1) << p << " ranks, " << k << " micro-batches";
                         for (const RankTime& rank : time.ranks) ASSERT_LE(rank.in_flight, p);
                         ASSERT_EQ(time.ranks.front().in_flight, p);
                       });
}

// No rank has a gap. Only the skew of their starts remains.
TEST(PipelineTime, ZbH2HasOnlyTheSkew) {
  for_ranks_and_micros([](int p) { return 2 * p - 1; },
                       [](int p, int k) {
                         const PipelineTime time =
                             time_of(PassOrder::kZbH2, p, k, {.forward = 1, .inputs = 1, .weights = 1});
                         ASSERT_EQ(time.bubble, p - 1) << p << " ranks, " << k << " micro-batches";
                         for (const RankTime& rank : time.ranks) {
                           ASSERT_EQ(rank.end - rank.start, 3 * k);
                           ASSERT_LE(rank.in_flight, 2 * p - 1);
                         }
                         ASSERT_EQ(time.ranks.front().in_flight, 2 * p - 1);
                       });
}

TEST(PipelineTime, ZbVHasOnlyTheSkew) {
  for_ranks_and_micros([](int p) { return 2 * p; },
                       [](int p, int k) {
                         const PipelineTime time =
                             time_of(PassOrder::kZbV, p, k, {.forward = 1, .inputs = 1, .weights = 1});
                         ASSERT_LE(time.bubble, p - 1) << p << " ranks, " << k << " micro-batches";
                         for (const RankTime& rank : time.ranks) {
                           ASSERT_EQ(rank.end - rank.start, 6 * k);
                           ASSERT_LE(rank.in_flight, 2 * p) << "in halves of a micro-batch";
                         }
                       });
}

TEST(PipelineTime, LinksAddToTheFill) {
  const PipelinePlan plan = build_pipeline(PassOrder::kGpipe, 3, 3, 1);
  EXPECT_EQ(simulate(plan, costs_of({1, 1, 1}, 3), links_of(10, 100, 3)).seconds, 9 + 20 + 200);
}

// Messages of one direction share the link: four micro-batches take four times as long as one.
TEST(PipelineTime, MessagesFollowEachOther) {
  const PipelinePlan plan = build_pipeline(PassOrder::kGpipe, 2, 2, 4);
  const PipelineTime time = simulate(plan, costs_of({1, 0, 0}, 2), links_of(10, 0, 2));
  EXPECT_EQ(time.seconds, 1 + 4 * 10 + 1);
}

// Latencies overlap: three messages of 10 s and 100 s of latency arrive after 110, 120 and 130 s.
TEST(PipelineTime, LatencyLeavesTheLinkFree) {
  const PipelinePlan plan = build_pipeline(PassOrder::kGpipe, 2, 2, 3);
  PipelineLinks links = links_of(10, 0, 2);
  links.latency = 100;
  const PipelineTime time = simulate(plan, costs_of({1, 0, 0}, 2), links);
  EXPECT_EQ(time.ranks[1].start, 1 + 110);
  EXPECT_EQ(time.ranks[1].end, 1 + 130 + 1);
}

TEST(PipelineTime, UnequalSectionsWaitForTheSlowest) {
  const PipelinePlan plan = build_pipeline(PassOrder::kOneForwardOneBackward, 2, 2, 8);
  const PipelineTime time = simulate(plan, {{1, 1, 1}, {2, 2, 2}}, {});
  EXPECT_EQ(time.seconds, 1 + 8 * 6 + 2);
  EXPECT_EQ(time.bubble, 3);
}

// Two ranks and gpipe: all forward passes, then all backward passes.
TEST(PipelineTime, ActivationsAreHeldBetweenPasses) {
  const PipelinePlan plan = build_pipeline(PassOrder::kGpipe, 2, 2, 3);
  PassCosts costs = costs_of({1, 1, 1}, 2);
  costs[0].held = {.kept = 100};
  costs[1].held = {.kept = 10, .repeated = 5};
  const PipelineTime time = simulate(plan, costs, {});
  EXPECT_EQ(time.ranks[0].activation_bytes, 300);
  EXPECT_EQ(time.ranks[1].activation_bytes, 30 + 5);
}

// Rank 1 runs F0 B0 F1 B1 F2 B2, and rank 0 F0 F1 B0 F2 B1 B2. The value of F2 says that B0 has read its gradient.
TEST(PipelineTime, SentGradientsWaitForAnAnswer) {
  PassCosts costs = costs_of({1, 1, 1}, 2);
  costs[0].held = {.kept = 1, .gradients_from = {1}};
  costs[1].held = {.kept = 1, .sent = {{.bytes = 1000, .section = 0}}, .values_from = {0}};
  const PipelinePlan interleaved = build_pipeline(PassOrder::kOneForwardOneBackward, 2, 2, 8);
  EXPECT_EQ(simulate(interleaved, costs, {}).ranks[1].activation_bytes, 2000);
  const PipelinePlan whole = build_pipeline(PassOrder::kGpipe, 2, 2, 8);
  EXPECT_EQ(simulate(whole, costs, {}).ranks[1].activation_bytes, 8000) << "no message answers";
}

// Section 1 gives a gradient to section 0 of its rank, which uses it in its pass of weights.
TEST(PipelineTime, WaitingBytesEndWithWeights) {
  PipelinePlan plan{.ranks = 1, .micros = 1, .rank_of_section = {0, 0}, .passes = {{}}};
  plan.passes[0] = {{PassKind::kForward, 0, 0}, {PassKind::kForward, 0, 1}, {PassKind::kInputs, 0, 1},
                    {PassKind::kInputs, 0, 0},  {PassKind::kWeights, 0, 1}, {PassKind::kWeights, 0, 0}};
  PassCosts costs = costs_of({1, 1, 1}, 2);
  costs[1].held = {
      .kept = 1, .waiting = 10, .gradients = 500, .given = {{.bytes = 100, .section = 0, .until_weights = true}}};
  costs[0].held = {.kept = 2, .waiting = 20, .gradients = 1000};
  EXPECT_EQ(simulate(plan, costs, {}).ranks[0].activation_bytes, 20 + 100 + 1000);
  costs[1].held.given.front().until_weights = false;
  EXPECT_EQ(simulate(plan, costs, {}).ranks[0].activation_bytes, 20 + 1000) << "section 0's inputs took the gradient";
}

TEST(PipelineTime, DeadlockNamesBothRanks) {
  PipelinePlan plan = build_pipeline(PassOrder::kGpipe, 2, 2, 2);
  plan.passes[0] = {
      {PassKind::kForward, 0, 0}, {PassKind::kBackward, 0, 0}, {PassKind::kForward, 1, 0}, {PassKind::kBackward, 1, 0}};
  EXPECT_EQ(message_of<ConfigError>([&] {
              simulate(plan, costs_of({1, 1, 1}, 2), {});
            }),
            "parallel.schedule = 2 ranks: ranks wait for each other: rank 0 is at the backward pass of micro-batch 0 "
            "through section 0, rank 1 at the forward pass of micro-batch 1 through section 1\n"
            "  use an order that build_pipeline() makes");
}

TEST(PipelineTime, IncompletePlansAreRefused) {
  PipelinePlan plan = build_pipeline(PassOrder::kGpipe, 2, 2, 2);
  plan.passes[1].pop_back();
  EXPECT_THROW(simulate(plan, costs_of({1, 1, 1}, 2), {}), InternalError);
  plan = build_pipeline(PassOrder::kGpipe, 2, 2, 2);
  std::swap(plan.passes[1][0], plan.passes[1][1]);
  EXPECT_THROW(simulate(plan, costs_of({1, 1, 1}, 2), {}), InternalError);
}

}  // namespace
}  // namespace zero
