#include "zero/memory/link/paced_link.h"

#include <gtest/gtest.h>

#include "zero/base/process/clock.h"

#include "tests/support/simulated_time.h"

namespace zero {
namespace {

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 31 + 7);
  return bytes;
}

double seconds_of(const TimelineSpan& span) {
  return span.end - span.begin;
}

TEST(PacedLink, CarriesAndCountsBytesByDirection) {
  PacedLink link(1e9);
  const auto from = bytes_of(1000);
  std::vector<std::byte> up(1000), down(600);
  link.up(up, from).wait();
  link.down(down, std::span(from).first(600)).wait();
  EXPECT_EQ(up, from);
  EXPECT_TRUE(std::equal(down.begin(), down.end(), from.begin()));
  EXPECT_EQ(link.traffic().up_bytes, 1000);
  EXPECT_EQ(link.traffic().down_bytes, 600);
  EXPECT_DOUBLE_EQ(link.traffic().busy_seconds, 1600 / 1e9);
  EXPECT_DOUBLE_EQ(link.traffic().up_busy_seconds, 1000 / 1e9);
  EXPECT_DOUBLE_EQ(link.traffic().down_busy_seconds(), 600 / 1e9);
}

TEST(PacedLink, CountsWaitsByDirection) {
  const SimulatedTime time;
  PacedLink link(1e6, nullptr, time);
  const auto from = bytes_of(20000);
  std::vector<std::byte> to(20000);
  link.down(to, std::span(from)).wait();
  EXPECT_EQ(link.traffic().up_waited_seconds, 0);
  EXPECT_DOUBLE_EQ(link.traffic().down_waited_seconds(), 0.02);
  link.up(std::span(to).first(10000), std::span(from).first(10000)).wait();
  EXPECT_DOUBLE_EQ(link.traffic().up_waited_seconds, 0.01);
  EXPECT_DOUBLE_EQ(link.traffic().waited_seconds, 0.03);
}

TEST(PacedLink, TrafficAddsUpFieldByField) {
  const LinkTraffic a{.up_bytes = 1,
                      .down_bytes = 20,
                      .busy_seconds = 300,
                      .waited_seconds = 4000,
                      .up_busy_seconds = 50000,
                      .up_waited_seconds = 600000};
  const LinkTraffic twice = a + a, once = twice - a;
  EXPECT_EQ(twice.up_bytes + twice.down_bytes, 2 * 21);
  EXPECT_EQ(twice.busy_seconds + twice.waited_seconds + twice.up_busy_seconds + twice.up_waited_seconds, 2 * 654300);
  EXPECT_EQ(once.up_bytes + once.down_bytes, 21);
  EXPECT_EQ(once.busy_seconds + once.waited_seconds + once.up_busy_seconds + once.up_waited_seconds, 654300);
}

// Uses the machine's clock: a wait may be longer than the link's time, never shorter.
TEST(PacedLink, TransferTakesItsTime) {
  PacedLink link(1e5);
  const auto from = bytes_of(2000);
  std::vector<std::byte> to(2000);
  const double begin = monotonic_seconds();
  Transfer transfer = link.up(to, from);
  transfer.wait();
  EXPECT_GE(monotonic_seconds() - begin, 2000 / 1e5);
  EXPECT_LE(link.traffic().waited_seconds, 2000 / 1e5) << "the rest of it";
}

TEST(PacedLink, TimelineShowsTransfersInTurn) {
  Timeline timeline;
  timeline.start();
  PacedLink link(1e6, &timeline);
  const auto from = bytes_of(5000);
  std::vector<std::byte> first(5000), second(2000), third(1000);
  Transfer a = link.up(first, from, 3);
  Transfer b = link.up(second, std::span(from).first(2000), 4);
  Transfer c = link.down(third, std::span(from).first(1000), 5);
  ASSERT_EQ(timeline.spans().size(), 3u) << "known when it is begun";
  const TimelineSpan& up = timeline.spans()[0];
  const TimelineSpan& queued = timeline.spans()[1];
  const TimelineSpan& down = timeline.spans()[2];
  EXPECT_EQ(up.activity, Activity::kLinkUp);
  EXPECT_EQ(up.unit, 3);
  EXPECT_EQ(up.bytes, 5000);
  EXPECT_NEAR(seconds_of(up), 5e-3, 1e-9);
  EXPECT_GE(queued.begin, up.end) << "one transfer at a time in a direction";
  EXPECT_NEAR(seconds_of(queued), 2e-3, 1e-9);
  EXPECT_EQ(down.activity, Activity::kLinkDown);
  EXPECT_NEAR(seconds_of(up) + seconds_of(queued) + seconds_of(down), link.traffic().busy_seconds, 1e-9);
}

// A clock that advances only in sleeps, by the requested seconds. The machine may sleep longer than that.
class StillWhileAwake final : public LinkClock {
 public:
  double now() const override { return now_; }
  void sleep(double seconds) const override {
    LinkClock::sleep(seconds);
    now_ += seconds;
  }

 private:
  mutable double now_ = monotonic_seconds();
};

TEST(PacedLink, TheTimelineHasWhatNothingHid) {
  Timeline timeline;
  timeline.start();
  const StillWhileAwake time;
  PacedLink link(1e5, &timeline, time);
  const auto from = bytes_of(2000);
  std::vector<std::byte> to(2000);
  Transfer transfer = link.down(to, from, 6);
  transfer.wait();
  ASSERT_EQ(timeline.spans().size(), 2u);
  const TimelineSpan& moved = timeline.spans()[0];
  const TimelineSpan& waited = timeline.spans()[1];
  EXPECT_EQ(waited.activity, Activity::kWaitLink);
  EXPECT_EQ(waited.unit, 6);
  EXPECT_GE(waited.begin, moved.begin);
  EXPECT_GE(waited.end, moved.end);
  EXPECT_NEAR(link.traffic().waited_seconds, 0.02, 1e-9);
  EXPECT_GE(seconds_of(waited) + 1e-9, link.traffic().waited_seconds);
}

TEST(PacedLink, WhoComesLateDoesNotWait) {
  Timeline timeline;
  timeline.start();
  PacedLink link(1e9, &timeline);
  const auto from = bytes_of(16);
  std::vector<std::byte> to(16);
  Transfer transfer = link.up(to, from);
  while (!transfer.done()) {
  }
  transfer.wait();
  EXPECT_EQ(timeline.spans().size(), 1u);
  EXPECT_EQ(link.traffic().waited_seconds, 0);
}

// Each link counts its own bytes.
TEST(PacedLink, SharedOnesTakeTurns) {
  const SimulatedTime time;
  PacedLink link(1e6, nullptr, time);
  const std::unique_ptr<Link> other = link.beside();
  const auto from = bytes_of(1000);
  std::vector<std::byte> to(1000), also(1000);
  Transfer first = link.up(to, from);
  other->up(also, from).wait();
  EXPECT_NEAR(time.now(), 0.002, 1e-12);
  EXPECT_EQ(link.traffic().up_bytes, 1000);
  EXPECT_EQ(other->traffic().up_bytes, 1000);
}

}  // namespace
}  // namespace zero
