#include "zero/comm/replacements.h"

#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/comm/arrivals.h"
#include "zero/comm/board.h"
#include "zero/comm/group.h"
#include "zero/comm/shared_memory.h"

namespace zero {
namespace {

constexpr int kLives = 4;
constexpr std::size_t kBytes = 4 * kInlineBytes;  // travels by a window

std::unique_ptr<Communicator> connect(const std::string& run, int rank, int life, int most) {
  return connect_shared_memory({.rank = rank,
                                .world = 3,
                                .local_rank = rank,
                                .local_world = 3,
                                .run_id = run,
                                .replacement = life,
                                .most_replacements = most},
                               std::chrono::seconds(60));
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

void send(Communicator& comm, int to, int life) {
  comm.send(message(comm.rank(), to, life), to, {}).wait();
}

// Of each life of rank 2: one message each way that is received, and one each way that is not.
void lead(Communicator& comm) {
  Arrivals& arrivals = *comm.arrivals();
  Replacements& replacements = *arrivals.replacements();
  EXPECT_FALSE(replacements.is_one());
  for (int life = 0; life < kLives; ++life) {
    send(comm, 2, life);
    expect_message(comm, 2, life);
    send(comm, 2, 99);
    arrivals.await([&] { return arrivals.lost(2); });
    if (life + 1 == kLives) return;
    arrivals.await([&] { return replacements.waiting(only(2)) == 2; });
    replacements.introduce(2, only(1));
    send(comm, 1, life);
    replacements.take_back(2);
    expect_message(comm, 1, life);
    EXPECT_TRUE(arrivals.lost(2)) << "it has not begun";
    replacements.let_in(2);
    EXPECT_FALSE(arrivals.lost(2));
    send(comm, 1, life + 50);
  }
}

void follow(Communicator& comm) {
  for (int life = 0; life < kLives; ++life) {
    send(comm, 2, life);
    expect_message(comm, 2, life);
    send(comm, 2, 99);
    if (life + 1 == kLives) return;
    expect_message(comm, 0, life);
    comm.arrivals()->replacements()->take_back(2);
    send(comm, 0, life);
    expect_message(comm, 0, life + 50);  // until then it still counts as lost
  }
}

void come_and_go(Communicator& comm, int life) {
  EXPECT_EQ(is_replacement(comm), life > 0);
  const auto alone = life > 0 ? open_alone(comm, "alone") : nullptr;
  if (alone) {
    EXPECT_EQ(alone->world(), 1);
  }
  for (const int peer : {0, 1}) {
    send(comm, peer, life);
    expect_message(comm, peer, life);
    send(comm, peer, 77);
  }
}

TEST(Replacements, ExchangeMessagesWithThoseThatTookThemBackAndGetNoneOfTheirPredecessors) {
  const std::string run = fmt::format("replacements-{}", getpid());
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { lead(*connect(run, 0, 0, kLives)); });
  threads.emplace_back([&] { follow(*connect(run, 1, 0, kLives)); });
  threads.emplace_back([&] {
    for (int life = 0; life < kLives; ++life) come_and_go(*connect(run, 2, life, kLives), life);
  });
}

TEST(Replacements, AreNotThereUnlessTheLauncherSaysSo) {
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

}  // namespace
}  // namespace zero
