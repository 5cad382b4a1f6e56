#include "zero/memory/io/transfer.h"

#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

static_assert(!std::is_copy_constructible_v<Transfer> && std::is_nothrow_move_constructible_v<Transfer>);

struct Seen {
  int finished = 0;
  int destroyed = 0;
  bool ready = false;
  bool fails = false;
};

class Recorded final : public Transfer::Pending {
 public:
  explicit Recorded(Seen& seen) : seen_(seen) {}
  ~Recorded() override { ++seen_.destroyed; }
  void finish() override {
    EXPECT_EQ(seen_.destroyed, 0);
    ++seen_.finished;
    if (seen_.fails) throw IoError("/disk", "read of 4,096 bytes", EIO);
  }
  bool poll() override { return seen_.ready; }

 private:
  Seen& seen_;
};

Transfer transfer(Seen& seen) {
  return Transfer(std::make_unique<Recorded>(seen));
}

TEST(Transfer, AnEmptyOneIsDone) {
  Transfer empty;
  EXPECT_TRUE(empty.done());
  empty.wait();
}

TEST(Transfer, FinishesOnceOverManyWaits) {
  Seen seen;
  Transfer moving = transfer(seen);
  moving.wait();
  moving.wait();
  EXPECT_EQ(seen.finished, 1);
  EXPECT_EQ(seen.destroyed, 1);
  EXPECT_TRUE(moving.done());
}

TEST(Transfer, PendingDecidesDone) {
  Seen seen;
  const Transfer moving = transfer(seen);
  EXPECT_FALSE(moving.done());
  seen.ready = true;
  EXPECT_TRUE(moving.done());
}

TEST(Transfer, WaitThrowsErrorThenIsDone) {
  Seen seen{.fails = true};
  Transfer moving = transfer(seen);
  EXPECT_TRUE(says(message_of<IoError>([&] { moving.wait(); }), "/disk: read of 4,096 bytes"));
  EXPECT_TRUE(moving.done());
  EXPECT_EQ(seen.destroyed, 1);
  moving.wait();
}

TEST(Transfer, DestructionFinishesIt) {
  Seen seen;
  { const Transfer moving = transfer(seen); }
  EXPECT_EQ(seen.finished, 1);
  EXPECT_EQ(seen.destroyed, 1);
}

TEST(Transfer, DestructionLogsItsError) {
  Seen seen{.fails = true};
  testing::internal::CaptureStderr();
  { const Transfer moving = transfer(seen); }
  EXPECT_TRUE(says(testing::internal::GetCapturedStderr(), "/disk: read of 4,096 bytes"));
}

TEST(Transfer, AssigningFinishesTheOldOneFirst) {
  Seen first;
  Seen second;
  Transfer moving = transfer(first);
  moving = transfer(second);
  EXPECT_EQ(first.finished, 1);
  EXPECT_EQ(second.finished, 0);
  Transfer& same = moving;
  moving = std::move(same);
  EXPECT_EQ(second.finished, 0) << "self-assignment changes nothing";
  moving.wait();
  EXPECT_EQ(second.finished, 1);
}

TEST(Transfer, MovesWithoutBeingFinished) {
  Seen seen;
  Transfer from = transfer(seen);
  Transfer to = std::move(from);
  EXPECT_TRUE(from.done());  // NOLINT: tests the moved-from object
  EXPECT_EQ(seen.finished, 0);
  to.wait();
  EXPECT_EQ(seen.finished, 1);
}

struct Leg {
  bool begun = false;
  bool ready = false;
  bool finished = false;
  bool fails = false;
};

class Watched final : public Transfer::Pending {
 public:
  explicit Watched(Leg& leg) : leg_(leg) { leg.begun = true; }
  void finish() override {
    leg_.finished = true;
    if (leg_.fails) throw IoError("/disk", "read of 4,096 bytes", EIO);
  }
  bool poll() override { return leg_.ready; }

 private:
  Leg& leg_;
};

Transfer begin(Leg& leg) {
  return Transfer(std::make_unique<Watched>(leg));
}

struct TwoLegs {
  Leg first, second;
  Transfer transfer = chain(begin(first), [this] { return begin(second); });
};

TEST(ChainedTransfer, SecondLegFollowsTheFirst) {
  TwoLegs legs;
  EXPECT_FALSE(legs.transfer.done());
  EXPECT_FALSE(legs.second.begun);
  legs.first.ready = true;
  EXPECT_FALSE(legs.transfer.done());
  EXPECT_TRUE(legs.first.finished && legs.second.begun);
  legs.second.ready = true;
  EXPECT_TRUE(legs.transfer.done());
  legs.transfer.wait();
  EXPECT_TRUE(legs.second.finished);
}

TEST(ChainedTransfer, WaitingWaitsForBoth) {
  TwoLegs legs;
  legs.transfer.wait();
  EXPECT_TRUE(legs.first.finished && legs.second.begun && legs.second.finished);
}

TEST(ChainedTransfer, WaitThrowsEitherLegsErrorOnce) {
  for (const bool polled : {false, true}) {
    TwoLegs legs;
    legs.first.fails = legs.first.ready = true;
    if (polled) {
      EXPECT_TRUE(legs.transfer.done()) << "wait() will not block";
    }
    EXPECT_TRUE(says(message_of<IoError>([&] { legs.transfer.wait(); }), "read of 4,096 bytes"));
    EXPECT_FALSE(legs.second.begun);
    EXPECT_NO_THROW(legs.transfer.wait());
  }
  TwoLegs legs;
  legs.second.fails = true;
  EXPECT_TRUE(says(message_of<IoError>([&] { legs.transfer.wait(); }), "read of 4,096 bytes"));
}

TEST(ChainedTransfer, DestroyedItFinishesBoth) {
  Leg first, second;
  {
    const Transfer transfer = chain(begin(first), [&] { return begin(second); });
  }
  EXPECT_TRUE(first.finished && second.finished);
}

}  // namespace
}  // namespace zero
