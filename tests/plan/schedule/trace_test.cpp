#include "zero/plan/schedule/trace.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/plan/gpt_like.h"

namespace zero {
namespace {

TEST(Trace, EqualTracesHashAlike) {
  const auto units = gpt_units({});
  EXPECT_EQ(hash_of(straight_trace(units)), hash_of(straight_trace(units)));
}

TEST(Trace, HashMatchesOnEveryMachine) {
  EXPECT_EQ(hash_of({}), 14695981039346656037ull) << "FNV-1a's offset basis";
  const Trace one{{{EventKind::kAccess, 3, {1, 2}}, {EventKind::kStep, -1, {}}}};
  EXPECT_EQ(hash_of(one), 0xb893c0395068c93bull);
}

TEST(Trace, EverythingThatDiffersChangesTheHash) {
  const Trace base{{{EventKind::kAccess, 0, {1}}, {EventKind::kAccess, 1, {}}, {EventKind::kBackward, -1, {}}}};
  std::set<std::uint64_t> hashes{hash_of(base)};
  const auto with = [&](auto change) {
    Trace trace = base;
    change(trace.events);
    return hash_of(trace);
  };
  using Events = std::vector<Event>&;
  hashes.insert(with([](Events events) { std::swap(events[0], events[1]); }));
  hashes.insert(with([](Events events) { events[0].unit = 2; }));
  hashes.insert(with([](Events events) { events[0].pinned = {}; }));
  hashes.insert(with([](Events events) { events[0].pinned = {2}; }));
  hashes.insert(with([](Events events) { events[0].kind = EventKind::kGradient; }));
  hashes.insert(with([](Events events) { events[0].micro_batch = 1; }));
  hashes.insert(with([](Events events) { events.pop_back(); }));
  hashes.insert(with([](Events events) { events.push_back({EventKind::kStep, -1, {}}); }));
  EXPECT_EQ(hashes.size(), 9u);
}

// The length of a list is hashed before its elements, so its elements cannot pass for the next event's.
TEST(Trace, PinnedUnitsDifferFromEvents) {
  const Trace a{{{EventKind::kAccess, 0, {0, 0, 0}}}};
  const Trace b{{{EventKind::kAccess, 0, {}}, {EventKind::kAccess, 0, {}}}};
  EXPECT_NE(hash_of(a), hash_of(b));
}

TEST(Trace, EventsNameTheirUnits) {
  const auto units = gpt_units({});
  EXPECT_EQ(describe(Event{EventKind::kAccess, 2, {}}, units), "access h.0");
  EXPECT_EQ(describe(Event{EventKind::kGradient, 0, {}}, units), "gradient wte.weight");
  EXPECT_EQ(describe(Event{EventKind::kBackward, -1, {}}, units), "backward");
  EXPECT_EQ(describe(Event{EventKind::kEndBackward, -1, {}}, units), "end of backward");
  EXPECT_EQ(describe(Event{EventKind::kStep, -1, {}}, units), "step");
}

}  // namespace
}  // namespace zero
