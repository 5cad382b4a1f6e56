#include "zero/memory/disk/chained_transfer.h"

#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

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
