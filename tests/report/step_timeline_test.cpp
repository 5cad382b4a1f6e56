#include "app/report/step_timeline.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

#include "tests/comm/transport/worlds.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using nlohmann::json;

class StepTimelineTest : public testing::Test {
 protected:
  // Rank r marks r + 1 spans in each step. Returns for each rank the step after which it reported the file.
  std::vector<int> run(int num_ranks, std::int64_t num_steps, const TimelineOptions& options) {
    std::vector<int> written(static_cast<std::size_t>(num_ranks), -1);
    run_ranks(num_ranks, [&](World& world) {
      StepTimeline timeline(options, num_steps, world, folder_.path());
      for (int step = 0; step < num_steps; ++step) {
        timeline.begin_step(step);
        for (int i = 0; i <= world.rank(); ++i) {
          const TimedSpan span(timeline.recorder(), Activity::kUpdate, step);
        }
        if (timeline.end_step(step)) written[static_cast<std::size_t>(world.rank())] = step;
      }
    });
    return written;
  }

  // Names of a rank's spans, in order.
  std::vector<std::string> names(int rank) const {
    std::vector<std::string> found;
    const json trace = json::parse(read_file(folder_ / "t.json"));
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("ph") == "X" && event.at("pid") == rank) found.push_back(event.at("name"));
    }
    return found;
  }

  TemporaryFolder folder_;
};

// The file is written after the last recorded step.
TEST_F(StepTimelineTest, CoversSecondStepOn) {
  EXPECT_EQ(run(1, 10, {.file = "t.json", .steps = 3}), std::vector<int>{3});
  EXPECT_EQ(names(0), (std::vector<std::string>{"update 1", "update 2", "update 3"}));
}

TEST_F(StepTimelineTest, EndsWithTheRun) {
  EXPECT_EQ(run(1, 3, {.file = "t.json", .steps = 5}), std::vector<int>{2});
  EXPECT_EQ(names(0), (std::vector<std::string>{"update 1", "update 2"}));
}

TEST_F(StepTimelineTest, TakesOnlyStepIfSingle) {
  EXPECT_EQ(run(1, 1, {.file = "t.json", .steps = 3}), std::vector<int>{0});
  EXPECT_EQ(names(0), std::vector<std::string>{"update 0"});
}

// Ranks may have different numbers of spans.
TEST_F(StepTimelineTest, HasEveryRanksSpans) {
  EXPECT_EQ(run(3, 4, {.file = "t.json", .steps = 1}), (std::vector<int>{1, 1, 1}));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(names(rank), std::vector<std::string>(static_cast<std::size_t>(rank) + 1, "update 1"));
  EXPECT_EQ(folder_.num_files(), 1u) << "rank 0 writes";
}

// Ranks of a pipeline hold other units, and other numbers of units.
TEST_F(StepTimelineTest, RanksNameTheirUnits) {
  run_ranks(2, [&](World& world) {
    StepTimeline timeline({.file = "t.json", .steps = 1}, 1, world, folder_.path());
    timeline.recorder()->name_units(world.rank() == 0 ? std::vector<std::string>{"wte", "h.0"}
                                                      : std::vector<std::string>{"h.1"});
    timeline.begin_step(0);
    { const TimedSpan span(timeline.recorder(), Activity::kUpdate, /*unit=*/0); }
    timeline.end_step(0);
  });
  EXPECT_EQ(names(0), std::vector<std::string>{"update wte"});
  EXPECT_EQ(names(1), std::vector<std::string>{"update h.1"});
}

TEST_F(StepTimelineTest, WithoutAFileThereIsNone) {
  EXPECT_EQ(run(2, 4, {}), (std::vector<int>{-1, -1}));
  EXPECT_EQ(folder_.num_files(), 0u);
}

TEST_F(StepTimelineTest, DefaultCoversStepAfterWarmUp) {
  EXPECT_EQ(run(2, 10, {.file = "t.json", .steps = 3, .asked = false}), (std::vector<int>{3, 3}));
  EXPECT_EQ(names(0), std::vector<std::string>{"update 3"});
}

TEST_F(StepTimelineTest, DefaultCoversShortRunsLastStep) {
  EXPECT_EQ(run(1, 2, {.file = "t.json", .asked = false}), std::vector<int>{1});
  EXPECT_EQ(names(0), std::vector<std::string>{"update 1"});
}

// A resumed run makes the last two of ten steps, or none.
TEST_F(StepTimelineTest, ResumedRunCountsItsSteps) {
  run_ranks(1, [&](World& world) {
    StepTimeline timeline({.file = "t.json", .asked = false}, 10, world, folder_.path());
    timeline.expect(2);
    for (int step = 0; step < 2; ++step) {
      timeline.begin_step(step);
      { const TimedSpan span(timeline.recorder(), Activity::kUpdate, step); }
      EXPECT_EQ(timeline.end_step(step), step == 1);
    }
    StepTimeline none({.file = "t.json", .asked = false}, 10, world, folder_.path());
    none.expect(0);
    none.remove_old();
  });
  EXPECT_EQ(names(0), std::vector<std::string>{"update 1"});
}

// One rank has too many spans.
TEST_F(StepTimelineTest, TooManySpansDropDefault) {
  const auto spans_on_rank_1 = [&](std::int64_t number) {
    run_ranks(2, [&](World& world) {
      StepTimeline timeline({.file = "t.json", .asked = false}, 1, world, folder_.path());
      timeline.begin_step(0);
      for (std::int64_t i = 0; i < (world.rank() == 1 ? number : 1); ++i) {
        const TimedSpan span(timeline.recorder(), Activity::kUpdate);
      }
      EXPECT_EQ(timeline.end_step(0), number <= TimelineOptions::kMostUnasked / 2);
    });
    return folder_.num_files();
  };
  EXPECT_EQ(spans_on_rank_1(TimelineOptions::kMostUnasked / 2 + 1), 0u);
  EXPECT_EQ(spans_on_rank_1(TimelineOptions::kMostUnasked / 2), 1u);
}

TEST_F(StepTimelineTest, FailedDefaultDoesNotEndRun) {
  run_ranks(1, [&](World& world) {
    StepTimeline timeline({.file = "t.json", .asked = false}, 1, world, folder_ / "gone");
    timeline.begin_step(0);
    EXPECT_NO_THROW(timeline.end_step(0));
  });
}

TEST_F(StepTimelineTest, RemovesEarlierRunsTimeline) {
  folder_.write("t.json", "old");
  folder_.write("other.json", "kept");
  run_ranks(1, [&](World& world) {
    StepTimeline({}, 4, world, folder_.path()).remove_old();
    EXPECT_EQ(folder_.num_files(), 2u);
    StepTimeline timeline({.file = "t.json"}, 4, world, folder_.path());
    EXPECT_NE(timeline.recorder(), nullptr);
    timeline.remove_old();
    timeline.remove_old();
  });
  EXPECT_EQ(folder_.num_files(), 1u);
}

TEST_F(StepTimelineTest, GoneFolderIsIoError) {
  run_ranks(1, [&](World& world) {
    StepTimeline timeline({.file = "t.json"}, 1, world, folder_ / "gone");
    timeline.begin_step(0);
    EXPECT_THROW(timeline.end_step(0), IoError);
  });
}

}  // namespace
}  // namespace zero
