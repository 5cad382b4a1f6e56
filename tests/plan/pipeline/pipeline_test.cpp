#include "zero/plan/pipeline/pipeline.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/plan/pipeline/pipeline_time.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

std::string order_text(PassOrder order, int ranks, int micros, int rank) {
  const PipelinePlan plan = build_pipeline(order, ranks, default_sections(order, ranks), micros);
  return text_of(plan.passes[static_cast<std::size_t>(rank)], plan.num_sections() > ranks);
}

TEST(Pipeline, GpipeEndsForwardPassesFirst) {
  EXPECT_EQ(order_text(PassOrder::kGpipe, 2, 3, 0), "F0 F1 F2 B0 B1 B2");
}

TEST(Pipeline, OneForwardOneBackwardAlternates) {
  EXPECT_EQ(order_text(PassOrder::kOneForwardOneBackward, 3, 4, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(order_text(PassOrder::kOneForwardOneBackward, 3, 4, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Pipeline, DepthRunsForwardPassesAhead) {
  const PipelinePlan plan = build_pipeline(PassOrder::kOneForwardOneBackward, 3, 3, 6, /*depth=*/1);
  EXPECT_EQ(text_of(plan.passes[0], false), "F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5");
  EXPECT_EQ(text_of(plan.passes[1], false), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(text_of(plan.passes[2], false), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
  EXPECT_EQ(message_of<ConfigError>([] { build_pipeline(PassOrder::kGpipe, 2, 2, 4, 1); }),
            "parallel.depth = 1: parallel.schedule = gpipe has no depth\n  use 0, or 1f1b");
}

// With messages that take as long as a pass, a greater depth has a smaller bubble, down to none in the middle.
TEST(Pipeline, DepthHidesSlowMessages) {
  const auto seconds = [](int depth, bool ties) {
    PipelinePlan plan = build_pipeline(PassOrder::kOneForwardOneBackward, 4, 4, 32, depth);
    if (ties) plan = with_lookup(plan, 3);
    const int sections = plan.num_sections();
    return simulate(plan, costs_of({.forward = 1, .inputs = 1, .weights = 1}, sections), links_of(1, 1, sections))
        .seconds;
  };
  for (const bool ties : {false, true}) {
    EXPECT_LT(seconds(1, ties), seconds(0, ties)) << ties;
    EXPECT_LE(seconds(2, ties), seconds(1, ties)) << ties;
    EXPECT_EQ(seconds(40, ties), seconds(32, ties)) << "all forward passes are first";
  }
}

TEST(Pipeline, InterleavedRanksHaveSeveralSections) {
  EXPECT_EQ(order_text(PassOrder::kInterleaved, 2, 2, 0), "F0.0 F1.0 F0.2 F1.2 B0.2 B1.2 B0.0 B1.0");
  EXPECT_EQ(order_text(PassOrder::kInterleaved, 2, 2, 1), "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1");
}

TEST(Pipeline, ZbVPutsLastBesideFirst) {
  const PipelinePlan plan = build_pipeline(PassOrder::kZbV, 3, 6, 6);
  EXPECT_EQ(plan.rank_of_section, (std::vector<int>{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(plan.sections_of(0), (std::vector<int>{0, 5}));
}

TEST(Pipeline, NamesAreFoundAgain) {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "auto"})
    EXPECT_EQ(name_of(pass_order_of(name)), name);
  EXPECT_EQ(message_of<ConfigError>([] { pass_order_of("zigzag"); }),
            "parallel.schedule = zigzag: not an allowed value\n"
            "  use one of: gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, auto");
}

TEST(Pipeline, ImpossibleNumbersAreRefused) {
  EXPECT_EQ(message_of<ConfigError>([] { build_pipeline(PassOrder::kInterleaved, 2, 4, 3); }),
            "train.accumulate = 3: parallel.schedule = interleaved needs a multiple of parallel.pipeline = 2\n"
            "  use 4, or parallel.schedule = 1f1b");
  EXPECT_EQ(message_of<ConfigError>([] { build_pipeline(PassOrder::kGpipe, 2, 4, 4); }),
            "parallel.sections = 4: parallel.schedule = gpipe cannot use this number on 2 ranks\n"
            "  use 2, one for each rank, or parallel.schedule = interleaved");
  EXPECT_EQ(message_of<ConfigError>([] { build_pipeline(PassOrder::kInterleaved, 2, 2, 4); }),
            "parallel.sections = 2: parallel.schedule = interleaved cannot use this number on 2 ranks\n"
            "  use a multiple of 2 that is at least 4");
  EXPECT_EQ(message_of<ConfigError>([] { build_pipeline(PassOrder::kZbV, 2, 2, 4); }),
            "parallel.sections = 2: parallel.schedule = zb-v cannot use this number on 2 ranks\n"
            "  use 4, two for each rank");
  EXPECT_THROW(build_pipeline(PassOrder::kGpipe, 0, 0, 1), ConfigError);
  EXPECT_THROW(build_pipeline(PassOrder::kGpipe, 2, 2, 0), ConfigError);
}

TEST(Lookup, RunsAheadOnTheLastRank) {
  const PipelinePlan plan = with_lookup(build_pipeline(PassOrder::kOneForwardOneBackward, 2, 2, 4), /*rank=*/1);
  EXPECT_EQ(plan.rank_of_section, (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(text_of(plan.passes[1], true),
            "F0.0 F1.0 F2.0 F0.2 B0.2 F3.0 F1.2 B1.2 B0.0 F2.2 B2.2 B1.0 F3.2 B3.2 B2.0 B3.0");
}

// Every order ends, with a lookup section on any rank: no two ranks wait for each other.
TEST(Lookup, NoOrderDeadlocks) {
  for (const PassOrder order : {PassOrder::kGpipe, PassOrder::kOneForwardOneBackward, PassOrder::kInterleaved,
                                PassOrder::kZbH1, PassOrder::kZbH2, PassOrder::kZbV}) {
    for (int ranks = 1; ranks <= 6; ++ranks) {
      for (int micros = ranks; micros <= 4 * ranks; micros += ranks) {
        const PipelinePlan plan = build_pipeline(order, ranks, default_sections(order, ranks), micros);
        for (int rank = 0; rank < ranks; ++rank) {
          const PipelinePlan both = with_lookup(plan, rank);
          simulate(both, costs_of({1, 1, 1}, both.num_sections()), {});
        }
      }
    }
  }
}

}  // namespace
}  // namespace zero
