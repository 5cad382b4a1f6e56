#include "app/report/page/timeline_file.h"

#include <array>

#include <gtest/gtest.h>

#include "zero/base/files/file.h"
#include "zero/base/process/chrome_trace.h"

#include "tests/support/temporary_folder.h"

namespace zero::page {
namespace {

// Two steps of one rank: a forward pass of 2 s with a gather inside, and a step() of 1 s.
std::string two_steps() {
  std::vector<TimelineSpan> spans;
  for (const double begin : {1.0, 5.0}) {
    spans.push_back({.begin = begin, .end = begin + 2, .activity = Activity::kForward});
    spans.push_back({.begin = begin + 0.5, .end = begin + 1, .bytes = 4096, .unit = 0, .activity = Activity::kGather});
    spans.push_back({.begin = begin + 2, .end = begin + 3, .activity = Activity::kStep});
  }
  const std::array ranks{RankTimeline{.spans = spans, .origin = 0}};
  const std::array<std::string, 1> units{"h.0"};
  return to_chrome_trace(ranks, units);
}

TEST(TimelineFile, TheLastWholeStepIsTaken) {
  TemporaryFolder folder;
  const auto timeline = read_timeline(folder.write("timeline.json", two_steps()));
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->problem, "");
  EXPECT_DOUBLE_EQ(timeline->seconds, 3);
  ASSERT_EQ(timeline->spans.size(), 3U);
  EXPECT_DOUBLE_EQ(timeline->spans[0].begin, 0);
  EXPECT_DOUBLE_EQ(timeline->spans[0].seconds, 2);
  ASSERT_EQ(timeline->rows.size(), 2U);
  EXPECT_EQ(timeline->rows[0].name, "compute");
  EXPECT_EQ(timeline->rows[1].name, "gather");
  EXPECT_EQ(timeline->names[timeline->spans[1].name], "gather h.0");
  EXPECT_EQ(timeline->spans[1].bytes, 4096);
}

// A step of a pipeline begins with its first pass.
TEST(TimelineFile, PassesBeginAStep) {
  std::vector<TimelineSpan> spans;
  for (int micro = 0; micro < 2; ++micro)
    spans.push_back({.begin = 1.0 + micro, .end = 2.0 + micro, .activity = Activity::kForward, .pass = {micro, 0}});
  spans.push_back({.begin = 3, .end = 5, .activity = Activity::kBackwardInputs, .pass = {0, 0}});
  spans.push_back({.begin = 5, .end = 6, .activity = Activity::kStep});
  const std::array ranks{RankTimeline{.spans = spans, .origin = 0}};
  TemporaryFolder folder;
  const auto timeline = read_timeline(folder.write("timeline.json", to_chrome_trace(ranks, {})));
  ASSERT_TRUE(timeline);
  EXPECT_DOUBLE_EQ(timeline->seconds, 5);
  EXPECT_EQ(timeline->names, (std::vector<std::string>{"forward 0.0", "forward 1.0", "backward inputs 0.0", "step"}));
}

TEST(TimelineFile, KeepsLongestOfTooManySpans) {
  std::vector<TimelineSpan> spans{{.begin = 0, .end = 100, .activity = Activity::kForward}};
  for (int i = 0; i < 5000; ++i)
    spans.push_back(
        {.begin = i * 0.01, .end = i * 0.01 + 1e-6 * (i + 1), .unit = 0, .activity = Activity::kWaitGather});
  spans.push_back({.begin = 100, .end = 101, .activity = Activity::kStep});
  const std::array ranks{RankTimeline{.spans = spans, .origin = 0}};
  TemporaryFolder folder;
  const auto timeline = read_timeline(folder.write("timeline.json", to_chrome_trace(ranks, {})));
  EXPECT_EQ(timeline->spans.size(), StepTimelineFile::kMostSpans);
  EXPECT_EQ(timeline->num_left_out, 1002U);
  EXPECT_DOUBLE_EQ(timeline->spans[0].seconds, 100);
}

TEST(TimelineFile, OneThatIsDamagedSaysSo) {
  TemporaryFolder folder;
  for (const char* text : {"", "{", "[]", R"({"traceEvents": 1})", R"({"traceEvents": [1, null, {}, {"ph": "X"}]})",
                           R"({"traceEvents": [{"ph": "X", "name": "forward", "pid": 1e300, "ts": "x"}]})",
                           R"({"traceEvents": [{"ph": "M", "name": "thread_name", "pid": -1, "args": []}]})"}) {
    const auto timeline = read_timeline(folder.write("timeline.json", text));
    ASSERT_TRUE(timeline) << text;
    EXPECT_TRUE(timeline->rows.empty()) << text;
    EXPECT_EQ(timeline->problem, "timeline.json holds no whole step") << text;
  }
}

TEST(TimelineFile, MissingFileGivesNothing) {
  EXPECT_FALSE(read_timeline("/nonexistent/timeline.json"));
}

}  // namespace
}  // namespace zero::page
