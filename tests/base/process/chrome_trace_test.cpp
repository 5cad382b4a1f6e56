#include "zero/base/process/chrome_trace.h"

#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace zero {
namespace {

using Json = nlohmann::json;

Json trace_of(const std::vector<TimelineSpan>& spans, const std::vector<std::string>& names = {}, double origin = 0) {
  const std::array ranks{RankTimeline{.spans = spans, .origin = origin}};
  return Json::parse(to_chrome_trace(ranks, names));
}

std::vector<Json> events_of(const Json& trace, const std::string& phase) {
  std::vector<Json> events;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) events.push_back(event);
  }
  return events;
}

// Names of threads and processes: {"thread_name", pid, tid} -> name.
std::map<std::tuple<std::string, int, int>, std::string> names_of(const Json& trace) {
  std::map<std::tuple<std::string, int, int>, std::string> names;
  for (const Json& event : events_of(trace, "M")) {
    if (!event.at("args").contains("name")) continue;
    names[{event.at("name"), event.at("pid"), event.at("tid")}] = event.at("args").at("name");
  }
  return names;
}

TEST(ChromeTrace, ASpanIsACompleteEvent) {
  const Json trace =
      trace_of({{.begin = 5.000001, .end = 5.0030015, .bytes = 4096, .unit = 1, .activity = Activity::kGather}},
               {"wte", "h.0"}, 5);
  const auto events = events_of(trace, "X");
  ASSERT_EQ(events.size(), 1u);
  const Json& event = events[0];
  EXPECT_EQ(event.at("name"), "gather h.0");
  EXPECT_EQ(event.at("cat"), "gather");
  EXPECT_NEAR(event.at("ts").get<double>(), 1, 1e-9) << "microseconds";
  EXPECT_NEAR(event.at("dur").get<double>(), 3000.5, 1e-9);
  EXPECT_EQ(event.at("pid"), 0);
  EXPECT_EQ(event.at("args").at("bytes"), 4096);
  EXPECT_EQ(names_of(trace).at({"thread_name", 0, event.at("tid").get<int>()}), "gather");
}

TEST(ChromeTrace, IsValidWithoutSpans) {
  EXPECT_TRUE(Json::parse(to_chrome_trace({}, {})).at("traceEvents").empty());
  const Json trace = trace_of({});
  EXPECT_TRUE(events_of(trace, "X").empty());
  EXPECT_EQ(names_of(trace).at({"process_name", 0, 0}), "rank 0");
}

TEST(ChromeTrace, NamesSpansWithoutUnitOrBytes) {
  const auto events = events_of(trace_of({{.begin = 0, .end = 1, .activity = Activity::kBackward}}), "X");
  EXPECT_EQ(events.at(0).at("name"), "backward");
  EXPECT_TRUE(events.at(0).at("args").empty());
}

TEST(ChromeTrace, UnnamedUnitHasItsNumber) {
  const auto events = events_of(trace_of({{.begin = 0, .end = 1, .unit = 4, .activity = Activity::kUpdate}}), "X");
  EXPECT_EQ(events.at(0).at("name"), "update 4");
}

TEST(ChromeTrace, PassesHaveMicroBatchAndSection) {
  const auto events = events_of(
      trace_of({{.begin = 0, .end = 1, .activity = Activity::kForward, .pass = {.micro = 3, .section = 1}},
                {.begin = 1, .end = 2, .activity = Activity::kBackwardWeights, .pass = {.micro = 0, .section = 2}}}),
      "X");
  EXPECT_EQ(events.at(0).at("name"), "forward 3.1");
  EXPECT_EQ(events.at(1).at("name"), "backward weights 0.2");
}

// Ranks of a pipeline have other units.
TEST(ChromeTrace, RanksNameTheirUnits) {
  const std::vector<TimelineSpan> spans{{.begin = 0, .end = 1, .unit = 0, .activity = Activity::kGather}};
  const std::vector<std::string> own{"h.2"}, all{"h.0"};
  const std::array ranks{RankTimeline{.spans = spans}, RankTimeline{.spans = spans, .unit_names = own}};
  const auto events = events_of(Json::parse(to_chrome_trace(ranks, all)), "X");
  EXPECT_EQ(events.at(0).at("name"), "gather h.0");
  EXPECT_EQ(events.at(1).at("name"), "gather h.2");
}

TEST(ChromeTrace, NamesAreEscaped) {
  const std::vector<std::string> names{"a\"b\\c\n\t{}", "Schicht.Größe", "not \xff UTF-8"};
  std::vector<TimelineSpan> spans;
  for (int unit = 0; unit < 3; ++unit)
    spans.push_back({.begin = 1.0 * unit, .end = 1.0 * unit + 1, .unit = unit, .activity = Activity::kGather});
  const auto events = events_of(trace_of(spans, names), "X");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].at("name"), "gather a\"b\\c\n\t{}");
  EXPECT_EQ(events[1].at("name"), "gather Schicht.Größe");
  EXPECT_EQ(events[2].at("name"), "gather not \xef\xbf\xbd UTF-8");
}

TEST(ChromeTrace, RankIsAProcessWithOrigin) {
  const std::vector<TimelineSpan> early{{.begin = 10, .end = 11, .activity = Activity::kForward}};
  const std::vector<TimelineSpan> late{{.begin = 110, .end = 111, .activity = Activity::kForward}};
  const std::array ranks{RankTimeline{.spans = early, .origin = 9, .num_lost = 2},
                         RankTimeline{.spans = late, .origin = 108, .num_lost = 3}};
  const Json trace = Json::parse(to_chrome_trace(ranks, {}));
  const auto events = events_of(trace, "X");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].at("pid"), 0);
  EXPECT_EQ(events[0].at("ts"), 1e6);
  EXPECT_EQ(events[1].at("pid"), 1);
  EXPECT_EQ(events[1].at("ts"), 2e6);
  EXPECT_EQ(names_of(trace).at({"process_name", 1, 0}), "rank 1");
  EXPECT_EQ(trace.at("otherData").at("lost_spans"), 5);
}

TEST(ChromeTrace, RowsAreOrderedWithoutEmptyOnes) {
  const Json trace = trace_of({{.begin = 0, .end = 1, .activity = Activity::kLinkDown},
                               {.begin = 2, .end = 3, .activity = Activity::kForward},
                               {.begin = 1, .end = 2, .activity = Activity::kGatherGradient}});
  std::map<int, std::string> rows;  // by position
  const auto names = names_of(trace);
  for (const Json& event : events_of(trace, "M")) {
    if (event.at("name") != "thread_sort_index") continue;
    rows[event.at("args").at("sort_index")] = names.at({"thread_name", 0, event.at("tid").get<int>()});
  }
  std::vector<std::string> in_order;
  for (const auto& [place, name] : rows) in_order.push_back(name);
  EXPECT_EQ(in_order, (std::vector<std::string>{"compute", "reduce", "link down"}));
}

TEST(ChromeTrace, TransfersInFlightTogetherGetLanes) {
  const Json trace = trace_of({{.begin = 0, .end = 4, .unit = 0, .activity = Activity::kDiskRead},
                               {.begin = 1, .end = 3, .unit = 1, .activity = Activity::kDiskRead},
                               {.begin = 3, .end = 5, .unit = 2, .activity = Activity::kDiskRead},
                               {.begin = 3, .end = 5, .unit = 3, .activity = Activity::kDiskWrite}});
  const auto names = names_of(trace);
  std::map<std::string, std::string> lanes;
  for (const Json& event : events_of(trace, "X"))
    lanes[event.at("name")] = names.at({"thread_name", 0, event.at("tid").get<int>()});
  EXPECT_EQ(lanes.at("read 0"), "disk read");
  EXPECT_EQ(lanes.at("read 1"), "disk read 2");
  EXPECT_EQ(lanes.at("read 2"), "disk read 2") << "it is free again";
  EXPECT_EQ(lanes.at("write 3"), "disk write");
}

TEST(ChromeTrace, ComputeSharesALaneOuterFirst) {
  // In the order of their ends.
  const auto events = events_of(trace_of({{.begin = 0, .end = 1, .unit = 0, .activity = Activity::kWaitLink},
                                          {.begin = 0, .end = 2, .unit = 0, .activity = Activity::kWaitGather},
                                          {.begin = 0, .end = 5, .activity = Activity::kForward},
                                          {.begin = 5, .end = 6, .activity = Activity::kBackward}}),
                                "X");
  ASSERT_EQ(events.size(), 4u);
  for (const Json& event : events) EXPECT_EQ(event.at("tid"), events[0].at("tid"));
  EXPECT_EQ(events[0].at("name"), "forward");
  EXPECT_EQ(events[1].at("name"), "wait gather 0");
  EXPECT_EQ(events[2].at("name"), "wait link 0");
  EXPECT_EQ(events[3].at("name"), "backward");
}

TEST(ChromeTrace, RoundingKeepsSpansInEachOther) {
  // The ends differ only in the last bit of a double.
  const double end = std::nextafter(0.3, 1);
  const auto events = events_of(trace_of({{.begin = 0.1, .end = end, .activity = Activity::kWaitGather},
                                          {.begin = 0.1, .end = 0.3, .activity = Activity::kForward}}),
                                "X");
  const auto end_of = [](const Json& event) {
    return std::llround((event.at("ts").get<double>() + event.at("dur").get<double>()) * 1000);
  };
  EXPECT_EQ(end_of(events.at(0)), end_of(events.at(1)));
}

RC_GTEST_PROP(ChromeTrace, EverySpanOnceWithoutOverlap, ()) {
  std::vector<TimelineSpan> spans;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> times;  // nanoseconds
  std::vector<std::string> names;
  const int count = *rc::gen::inRange(0, 60);
  for (int unit = 0; unit < count; ++unit) {
    const auto activity =
        static_cast<Activity>(*rc::gen::inRange<int>(static_cast<int>(Activity::kGather), kNumActivities));
    const std::int64_t begin = *rc::gen::inRange<std::int64_t>(0, 5000);
    const std::int64_t length = *rc::gen::inRange<std::int64_t>(0, 2000);
    spans.push_back({.begin = 1e-9 * static_cast<double>(begin),
                     .end = 1e-9 * static_cast<double>(begin + length),
                     .unit = unit,
                     .activity = activity});
    names.push_back("u" + std::to_string(unit));
    times[std::string(name_of(activity)) + " " + names.back()] = {begin, begin + length};
  }
  std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> lanes;
  std::set<std::string> seen;
  for (const Json& event : events_of(trace_of(spans, names), "X")) {
    const auto begin = std::llround(event.at("ts").get<double>() * 1000);
    const auto end = begin + std::llround(event.at("dur").get<double>() * 1000);
    RC_ASSERT(seen.insert(event.at("name")).second);
    RC_ASSERT(times.at(event.at("name")) == std::make_pair(std::int64_t{begin}, std::int64_t{end}));
    auto& lane = lanes[event.at("tid")];
    const bool free = lane.empty() || lane.back().second <= begin;
    RC_ASSERT(free);
    lane.emplace_back(begin, end);
  }
  RC_ASSERT(seen.size() == spans.size());
}

}  // namespace
}  // namespace zero
