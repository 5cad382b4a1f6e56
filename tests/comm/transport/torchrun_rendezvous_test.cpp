#include "zero/comm/transport/torchrun_rendezvous.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/comm/rendezvous/fake_tcp_store.h"
#include "tests/support/unclaimed_port.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class TorchrunRendezvousTest : public ::testing::Test {
 protected:
  RankEnvironment ranks() const {
    RankEnvironment ranks;
    ranks.world = 2;
    ranks.master_addr = "localhost";
    ranks.master_port = store_.port();
    ranks.agent_run = "none";
    return ranks;
  }

  FakeTcpStore store_;
};

TEST_F(TorchrunRendezvousTest, OthersLookUpRankZeroAddress) {
  TorchrunRendezvous rank_0(ranks(), seconds(10)), rank_1(ranks(), seconds(10));
  LinkFailure failure;
  ASSERT_TRUE(rank_0.announce(41234, &failure)) << failure.reason;
  RendezvousPoint::Place place;
  ASSERT_TRUE(rank_1.look_up(&place, &failure)) << failure.reason;
  EXPECT_EQ(place.port, 41234);
  EXPECT_EQ(place.name, rank_0.name());
}

TEST_F(TorchrunRendezvousTest, KeyHasRunWithoutRestartCount) {
  TorchrunRendezvous rank_0(ranks(), seconds(10));
  LinkFailure failure;
  ASSERT_TRUE(rank_0.announce(1, &failure));
  ASSERT_TRUE(store_.wait_for("set /zero/none/rank 0"));
  RankEnvironment other = ranks();
  other.agent_run = "another";
  RendezvousPoint::Place place;
  EXPECT_FALSE(TorchrunRendezvous(other, milliseconds(50)).look_up(&place, &failure));
}

// Each round has its own name.
TEST_F(TorchrunRendezvousTest, LaterOfTwoRoundsCounts) {
  TorchrunRendezvous first(ranks(), seconds(10)), second(ranks(), seconds(10));
  EXPECT_NE(first.name(), second.name());
  EXPECT_EQ(first.name().size(), 32u);
  LinkFailure failure;
  RendezvousPoint::Place place;
  for (TorchrunRendezvous* rank_0 : {&first, &second}) {
    ASSERT_TRUE(rank_0->announce(1, &failure));
    ASSERT_TRUE(rank_0->look_up(&place, &failure));
    EXPECT_EQ(place.name, rank_0->name());
  }
}

// On the store's host rank 0 reaches the store over loopback. Other ranks know that host by another address.
TEST_F(TorchrunRendezvousTest, LoopbackAddressMeansStoresHost) {
  TorchrunRendezvous point(ranks(), seconds(10));
  LinkFailure failure;
  RendezvousPoint::Place place;
  for (const char* loopback : {"127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1"}) {
    store_.put("/zero/none/rank 0", std::string(loopback) + " 7 name");
    ASSERT_TRUE(point.look_up(&place, &failure));
    EXPECT_STREQ(place.address, "localhost") << loopback;
  }
  store_.put("/zero/none/rank 0", "10.0.0.1 7 name");
  ASSERT_TRUE(point.look_up(&place, &failure));
  EXPECT_STREQ(place.address, "10.0.0.1");
  EXPECT_STREQ(place.name, "name");
}

TEST_F(TorchrunRendezvousTest, MissingRankZeroIsNamed) {
  TorchrunRendezvous point(ranks(), milliseconds(50));
  LinkFailure failure;
  RendezvousPoint::Place place;
  EXPECT_FALSE(point.look_up(&place, &failure));
  EXPECT_EQ(failure.rank, 0);
  EXPECT_FALSE(failure.configuration);
  EXPECT_EQ(std::string(failure.reason).find("did not publish its address: store at localhost:"), 0u) << failure.reason;
}

TEST_F(TorchrunRendezvousTest, RefusesEntryWithoutAddress) {
  for (const char* entry : {"", "10.0.0.1", "10.0.0.1 port name", "10.0.0.1 7", "10.0.0.1 99999999999 name"}) {
    store_.put("/zero/none/rank 0", entry);
    TorchrunRendezvous point(ranks(), seconds(10));
    LinkFailure failure;
    RendezvousPoint::Place place;
    EXPECT_FALSE(point.look_up(&place, &failure)) << entry;
    EXPECT_NE(std::string(failure.reason).find("is not an address"), std::string::npos) << failure.reason;
  }
}

TEST_F(TorchrunRendezvousTest, GoneStoreThrowsNothing) {
  OneAnswer dying("", true);
  RankEnvironment there = ranks();
  there.master_addr = "127.0.0.1";
  there.master_port = dying.port();
  TorchrunRendezvous point(there, seconds(10));
  LinkFailure failure;
  RendezvousPoint::Place place;
  EXPECT_FALSE(point.look_up(&place, &failure));
  EXPECT_NE(std::string(failure.reason).find("closed the connection"), std::string::npos) << failure.reason;
}

TEST_F(TorchrunRendezvousTest, MissingStoreFailsAtOnce) {
  RankEnvironment nowhere = ranks();
  nowhere.master_port = unclaimed_port();
  EXPECT_THROW(TorchrunRendezvous(nowhere, seconds(10)), CommError);
}

}  // namespace
}  // namespace zero
