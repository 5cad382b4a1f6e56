#include "zero/base/process/timeline.h"

#include <set>

#include <gtest/gtest.h>

namespace zero {
namespace {

std::vector<Activity> activities_of(const Timeline& timeline) {
  std::vector<Activity> activities;
  for (const TimelineSpan& span : timeline.spans()) activities.push_back(span.activity);
  return activities;
}

TEST(Timeline, KeepsSpansOfTheRecording) {
  Timeline timeline;
  TimedSpan before(&timeline, Activity::kForward);
  timeline.start();
  { const TimedSpan inside(&timeline, Activity::kGather, 3, 128); }
  TimedSpan after(&timeline, Activity::kBackward);
  before.end();
  timeline.stop();
  after.end();
  { const TimedSpan later(&timeline, Activity::kStep); }
  ASSERT_EQ(activities_of(timeline), std::vector<Activity>{Activity::kGather});
  const TimelineSpan& span = timeline.spans().front();
  EXPECT_EQ(span.unit, 3);
  EXPECT_EQ(span.bytes, 128);
  EXPECT_GE(span.begin, timeline.origin());
  EXPECT_LE(span.begin, span.end);
  EXPECT_LE(span.end, monotonic_seconds());
}

TEST(Timeline, StartForgetsWhatWasRecordedBefore) {
  Timeline timeline(1);
  timeline.start();
  { const TimedSpan kept(&timeline, Activity::kForward); }
  { const TimedSpan lost(&timeline, Activity::kForward); }
  TimedSpan open(&timeline, Activity::kForward);
  timeline.start();
  EXPECT_TRUE(timeline.spans().empty());
  EXPECT_EQ(timeline.num_lost(), 0);
  open.end();
  EXPECT_TRUE(timeline.spans().empty()) << "the span began before the start";
}

TEST(Timeline, CountsOverflowAndNeverMoves) {
  Timeline timeline(2);
  timeline.start();
  const TimelineSpan* const memory = timeline.spans().data();
  for (int i = 0; i < 5; ++i) {
    const TimedSpan span(&timeline, Activity::kUpdate, i);
  }
  ASSERT_EQ(timeline.spans().size(), 2u);
  EXPECT_EQ(timeline.spans()[1].unit, 1) << "the first are kept";
  EXPECT_EQ(timeline.num_lost(), 3);
  EXPECT_EQ(timeline.spans().data(), memory);
}

TEST(Timeline, AcceptsSpansThatEndLater) {
  Timeline timeline;
  timeline.add({.begin = monotonic_seconds(), .end = monotonic_seconds() + 60, .activity = Activity::kLinkUp});
  EXPECT_TRUE(timeline.spans().empty()) << "it does not record";
  timeline.start();
  timeline.add({.begin = timeline.origin(), .end = timeline.origin() + 60, .activity = Activity::kLinkUp});
  ASSERT_EQ(timeline.spans().size(), 1u);
  EXPECT_EQ(timeline.spans()[0].end, timeline.origin() + 60);
}

TEST(Timeline, ActivitiesAndRowsHaveNames) {
  std::set<std::string_view> names;
  std::set<TimelineRow> rows;
  for (int i = 0; i < kNumActivities; ++i) {
    names.insert(name_of(static_cast<Activity>(i)));
    rows.insert(row_of(static_cast<Activity>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kNumActivities));
  EXPECT_EQ(names.count(""), 0u);
  EXPECT_EQ(rows.size(), static_cast<std::size_t>(kNumTimelineRows));
  EXPECT_EQ(name_of(Activity::kWaitLink), "wait link");
  EXPECT_EQ(row_of(Activity::kWaitLink), TimelineRow::kCompute);
  EXPECT_EQ(name_of(row_of(Activity::kDiskWrite)), "disk write");
  EXPECT_EQ(name_of(row_of(Activity::kLinkDown)), "link down");
}

TEST(TimedSpan, WithoutATimelineIsNothing) {
  TimedSpan span(nullptr, Activity::kForward);
  span.end();
  TimedSpan empty;
  empty = std::move(span);
  empty.end();
}

TEST(TimedSpan, EndsOnce) {
  Timeline timeline;
  timeline.start();
  {
    TimedSpan span(&timeline, Activity::kForward);
    span.end();
    span.end();
  }
  EXPECT_EQ(timeline.spans().size(), 1u);
}

TEST(TimedSpan, LastsAsLongAsItsTarget) {
  Timeline timeline;
  timeline.start();
  std::vector<TimedSpan> kept;
  {
    TimedSpan span(&timeline, Activity::kGather, 7);
    kept.push_back(std::move(span));
  }
  EXPECT_TRUE(timeline.spans().empty());
  kept.clear();
  ASSERT_EQ(timeline.spans().size(), 1u);
  EXPECT_EQ(timeline.spans()[0].unit, 7);
}

TEST(TimedSpan, EndsWhenAnotherTakesItsPlace) {
  Timeline timeline;
  timeline.start();
  TimedSpan span(&timeline, Activity::kForward);
  span = TimedSpan(&timeline, Activity::kBackward);
  EXPECT_EQ(activities_of(timeline), std::vector<Activity>{Activity::kForward});
  span = TimedSpan();
  EXPECT_EQ(activities_of(timeline), (std::vector<Activity>{Activity::kForward, Activity::kBackward}));
}

// The engines of two sections of a pipeline.
TEST(Timeline, UnitsOfSeveralEnginesShareNames) {
  Timeline timeline;
  timeline.name_units({"h.0", "h.1"});
  timeline.name_units({"h.2"});
  timeline.name_units({"h.2"});
  EXPECT_EQ(timeline.unit_names(), (std::vector<std::string>{"h.0, h.2", "h.1"}));
}

}  // namespace
}  // namespace zero
