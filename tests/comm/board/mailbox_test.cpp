#include "zero/comm/board/mailbox.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "zero/comm/board/board.h"
#include "zero/comm/board/in_process.h"
#include "zero/comm/group.h"

namespace zero {
namespace {

using std::chrono::seconds;

constexpr int kMany = 2 * kMessageSlots;  // more messages than a rank's board holds

void send_value(Communicator& comm, int to, int value) {
  comm.send(std::as_bytes(std::span(&value, 1)), to, {}).wait();
}

int receive_value(Communicator& comm, int from) {
  int value = -1;
  comm.receive(std::as_writable_bytes(std::span(&value, 1)), from, {}).wait();
  return value;
}

TEST(Mailbox, KnowsWhetherTheNextMessageCame) {
  const auto ranks = make_in_process(2, seconds(20));
  Mailbox& mailbox = *ranks[0]->mailbox();
  EXPECT_FALSE(mailbox.has_message(1));
  send_value(*ranks[1], 0, 7);
  EXPECT_TRUE(mailbox.has_message(1));
  EXPECT_TRUE(mailbox.has_message(1));
  EXPECT_EQ(receive_value(*ranks[0], 1), 7);
  EXPECT_FALSE(mailbox.has_message(1));
}

// Rank 0 sends many messages to rank 2, and then one to rank 1, which then ends the wait of rank 2.
class CircleOfWaits : public testing::Test {
 protected:
  using Part = std::function<void(Communicator& run, Communicator& pair)>;

  // `answer`: what rank 1 does for rank 2. `wait`: how rank 2 waits for it.
  void run(const Part& answer, const Part& wait) {
    std::future<void> first = std::async(std::launch::async, [&] {
      open_group(*ranks_[0], {}, "pair");
      for (int i = 0; i < kMany; ++i) send_value(*ranks_[0], 2, i);
      send_value(*ranks_[0], 1, kMany);
    });
    std::future<void> second = std::async(std::launch::async, [&] {
      const std::unique_ptr<Communicator> pair = open_group(*ranks_[1], {1, 2}, "pair");
      EXPECT_EQ(receive_value(*ranks_[1], 0), kMany);
      answer(*ranks_[1], *pair);
    });
    const std::unique_ptr<Communicator> pair = open_group(*ranks_[2], {1, 2}, "pair");
    std::vector<int> received;
    Mailbox& mailbox = *ranks_[2]->mailbox();
    mailbox.while_waiting([&] {
      if (!mailbox.has_message(0)) return false;
      received.push_back(receive_value(*ranks_[2], 0));
      return true;
    });
    wait(*ranks_[2], *pair);
    mailbox.while_waiting({});
    std::vector<int> sent(kMany);
    std::iota(sent.begin(), sent.end(), 0);
    while (received.size() < sent.size()) received.push_back(receive_value(*ranks_[2], 0));
    EXPECT_EQ(received, sent);
    first.get();
    second.get();
  }

  std::vector<std::unique_ptr<Communicator>> ranks_ = make_in_process(3, seconds(20));
};

TEST_F(CircleOfWaits, ReceivingEndsIt) {
  run([](Communicator& run, Communicator&) { send_value(run, 2, 5); },
      [](Communicator& run, Communicator&) { EXPECT_EQ(receive_value(run, 1), 5); });
}

// Rank 2 waits in a collective of a group, as a section's ranks do in a gather.
TEST_F(CircleOfWaits, ReceivingInAGroupEndsIt) {
  const auto meet = [](Communicator&, Communicator& pair) { pair.barrier({}).wait(); };
  run(meet, meet);
}

}  // namespace
}  // namespace zero
