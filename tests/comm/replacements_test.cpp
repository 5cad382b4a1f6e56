#include "zero/comm/replacements.h"

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/arrivals.h"
#include "zero/comm/board/board.h"
#include "zero/comm/board/shared_memory.h"
#include "zero/comm/group.h"

#include "tests/comm/arriving_numbers.h"
#include "tests/comm/fake_link.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr int kLives = 4;
constexpr std::size_t kBytes = 4 * kInlineBytes;  // large enough for a window
constexpr std::chrono::milliseconds kPatience{60000};

std::unique_ptr<Communicator> connect(const std::string& run, int rank, int life, int most) {
  return connect_shared_memory({.rank = rank,
                                .world = 3,
                                .local_rank = rank,
                                .local_world = 3,
                                .run_id = run,
                                .replacement = life,
                                .most_replacements = most},
                               kPatience);
}

// Runs one process of a rank of three.
void live(FakeNetwork& network, int rank, int life, const std::function<void(Communicator&)>& body) {
  MessageCommunicator comm(std::make_unique<FakeLink>(network, rank, life, kLives), "fake", rank, 3, kPatience);
  body(comm);
}

// The same, but the process ends without a message.
void die(FakeNetwork& network, int rank, int life, const std::function<void(Communicator&)>& body) {
  live(network, rank, life, [&](Communicator& comm) {
    body(comm);
    network.lose(FakeNetwork::address_of(rank, life));
  });
}

// Reads all notices that other ranks have sent so far.
void look_once(Communicator& comm) {
  int looks = 0;
  comm.arrivals()->await([&] { return looks++ > 0; });
}

std::vector<std::byte> message(int from, int to, int life) {
  return std::vector<std::byte>(kBytes, std::byte(from + 10 * to + 50 * life));
}

void expect_message(Communicator& comm, int from, int life) {
  std::vector<std::byte> in(kBytes);
  Work work = comm.receive(in, from, {});
  await_message(comm, work, from);
  work.wait();
  EXPECT_EQ(in, message(from, comm.rank(), life)) << "rank " << comm.rank() << " from " << from << ", life " << life;
}

// Keeps the bytes of messages that nobody receives.
class Post {
 public:
  void send(Communicator& comm, int to, int life) {
    sent_.push_back(message(comm.rank(), to, life));
    comm.send(sent_.back(), to, {}).wait();
  }

 private:
  std::deque<std::vector<std::byte>> sent_;
};

// In each life of rank 2 one message in each direction is received, and one is not.
void lead(Communicator& comm, Post& post) {
  Arrivals& arrivals = *comm.arrivals();
  Replacements& replacements = *arrivals.replacements();
  EXPECT_FALSE(replacements.is_one());
  for (int life = 0; life < kLives; ++life) {
    expect_message(comm, 2, life);
    look_once(comm);
    post.send(comm, 2, life);
    post.send(comm, 2, 99);
    arrivals.await([&] { return arrivals.lost(2); });
    if (life + 1 == kLives) return;
    arrivals.await([&] { return replacements.waiting(only(2)) == 2; });
    replacements.introduce(2, only(1));
    post.send(comm, 1, life);
    replacements.take_back(2);
    expect_message(comm, 1, life);
    EXPECT_TRUE(arrivals.lost(2)) << "it has not begun";
    replacements.let_in(2);
    EXPECT_FALSE(arrivals.lost(2));
    post.send(comm, 1, life + 50);
  }
}

void follow(Communicator& comm, Post& post) {
  for (int life = 0; life < kLives; ++life) {
    expect_message(comm, 2, life);
    look_once(comm);
    post.send(comm, 2, life);
    post.send(comm, 2, 99);
    if (life + 1 == kLives) return;
    expect_message(comm, 0, life);
    comm.arrivals()->replacements()->take_back(2);
    post.send(comm, 0, life);
    expect_message(comm, 0, life + 50);  // before that rank 2 may still count as lost
  }
}

void come_and_go(Communicator& comm, int life, Post& post) {
  EXPECT_EQ(is_replacement(comm), life > 0);
  if (life == 0) comm.arrivals()->may_be_lost();
  const auto alone = life > 0 ? open_alone(comm, "alone") : nullptr;
  if (alone) {
    EXPECT_EQ(alone->world(), 1);
  }
  for (const int peer : {0, 1}) {
    post.send(comm, peer, life);
    expect_message(comm, peer, life);
    post.send(comm, peer, 77);
  }
}

// A replacement exchanges messages with ranks that accepted it. It receives no message for its predecessor.
TEST(Replacements, ReceiveOnlyTheirOwnMessages) {
  const std::string run = fmt::format("replacements-{}", getpid());
  std::vector<Post> posts(3);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { lead(*connect(run, 0, 0, kLives), posts[0]); });
  threads.emplace_back([&] { follow(*connect(run, 1, 0, kLives), posts[1]); });
  threads.emplace_back([&] {
    for (int life = 0; life < kLives; ++life) come_and_go(*connect(run, 2, life, kLives), life, posts[2]);
  });
}

TEST(Replacements, NeedTheLauncher) {
  const std::string run = fmt::format("no-replacements-{}", getpid());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto comm = connect(run, rank, 0, 0);
      EXPECT_EQ(comm->arrivals()->replacements(), nullptr);
      EXPECT_FALSE(is_replacement(*comm));
    });
  }
}

// ---- over messages ------------------------------------------------------------------------------------------------

// A replacement exchanges messages with ranks that accepted it. It receives no message for its predecessor.
TEST(MessageReplacements, ReceiveOnlyTheirOwnMessages) {
  FakeNetwork network;
  std::vector<Post> posts(3);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { live(network, 0, 0, [&](Communicator& comm) { lead(comm, posts[0]); }); });
  threads.emplace_back([&] { live(network, 1, 0, [&](Communicator& comm) { follow(comm, posts[1]); }); });
  threads.emplace_back([&] {
    for (int life = 0; life < kLives; ++life)
      die(network, 2, life, [&](Communicator& comm) { come_and_go(comm, life, posts[2]); });
  });
}

TEST(MessageReplacements, AreNotThereWithoutADoor) {
  FakeNetwork network;
  const auto ends = run_over(network, 2, kPatience, [](Communicator& comm) {
    EXPECT_EQ(comm.arrivals()->replacements(), nullptr);
    EXPECT_FALSE(is_replacement(comm));
  });
  EXPECT_EQ(ends, std::vector<std::string>(2));
}

// Rank 2 ends and returns until the leading rank 0 and rank 1 have both met it.
struct Returned {
  std::function<void(Communicator&)> lead = [](Communicator&) {}, follow = lead, comes = lead;
};

void take_back_until_it_lives(Communicator& comm) {
  Arrivals& arrivals = *comm.arrivals();
  take_number(comm, 2);
  look_once(comm);
  send_number(comm, 0, 2);
  if (comm.rank() == 0) {
    Replacements& replacements = *arrivals.replacements();
    while (arrivals.lost(2) || arrivals.await([&] { return arrivals.lost(2); })) {
      arrivals.await([&] { return replacements.waiting(only(2)) == 2; });
      replacements.introduce(2, only(1));
      send_number(comm, 1, 1);
      take_number(comm, 1);  // after rank 1 has tried to take it back
      replacements.take_back(2);
      replacements.let_in(2);
      if (!arrivals.lost(2)) break;
    }
    return send_number(comm, 0, 1);
  }
  while (take_number(comm, 0) == 1) {
    arrivals.replacements()->take_back(2);
    send_number(comm, 1, 0);
  }
}

std::vector<std::string> return_over(FakeNetwork& network, const Returned& returned) {
  std::vector<std::string> ends(3);
  std::vector<std::jthread> threads;
  const auto caught = [](const std::function<void()>& body) -> std::string {
    try {
      body();
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  };
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      ends[static_cast<std::size_t>(rank)] = caught([&] {
        live(network, rank, 0, [&](Communicator& comm) {
          take_back_until_it_lives(comm);
          (rank == 0 ? returned.lead : returned.follow)(comm);
        });
      });
    });
  }
  threads.emplace_back([&] {
    die(network, 2, 0, [](Communicator& comm) {
      comm.arrivals()->may_be_lost();
      for (const int peer : {0, 1}) {
        send_number(comm, 7, peer);
        take_number(comm, peer);
      }
    });
    for (int life = 1; life < kLives; ++life) {
      ends[2] = caught([&] { live(network, 2, life, returned.comes); });
      if (ends[2] != "killed") return;
    }
  });
  threads.clear();
  return ends;
}

// A replacement may end before either of the ranks that take it back has met it. It is then lost like its predecessor.
TEST(MessageReplacements, EndedBeforeMeetingAreLost) {
  FakeNetwork network;
  network.lose_at_meeting(FakeNetwork::address_of(2, 1), 1);
  network.lose_at_meeting(FakeNetwork::address_of(2, 2), 0);
  int came = 0;
  Returned returned;
  returned.lead = [](Communicator& comm) { EXPECT_EQ(take_number(comm, 2), 3); };
  returned.comes = [&](Communicator& comm) {
    ++came;
    send_number(comm, 3, 0);
  };
  EXPECT_EQ(return_over(network, returned), std::vector<std::string>(3));
  EXPECT_EQ(came, 1);
}

TEST(MessageReplacements, LearnFailuresAndLeavers) {
  FakeNetwork network;
  Returned returned;
  returned.lead = [](Communicator& comm) { take_number(comm, 1); };
  returned.follow = [&](Communicator&) {
    network.lose(1);
    throw std::runtime_error("died");
  };
  returned.comes = [](Communicator& comm) { take_number(comm, 0); };
  const auto ends = return_over(network, returned);
  for (const int rank : {0, 2}) EXPECT_TRUE(says(ends[static_cast<std::size_t>(rank)], "rank 1: "));

  FakeNetwork another;
  returned = {};
  returned.comes = [](Communicator& comm) {
    comm.arrivals()->await([&] { return comm.arrivals()->lost(0) && comm.arrivals()->lost(1); });
  };
  EXPECT_EQ(return_over(another, returned), std::vector<std::string>(3));
}

TEST(MessageReplacements, TakePartInNoCollective) {
  FakeNetwork network;
  Returned returned;
  returned.lead = [](Communicator& comm) { comm.barrier({}).wait(); };
  returned.follow = returned.lead;
  const auto ends = return_over(network, returned);
  for (const int rank : {0, 1})
    EXPECT_TRUE(
        says(ends[static_cast<std::size_t>(rank)], "with rank 2, which restarted and takes part in no collective"));
}

}  // namespace
}  // namespace zero
