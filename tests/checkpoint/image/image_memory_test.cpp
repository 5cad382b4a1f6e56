#include "zero/checkpoint/image/image_memory.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "zero/memory/memory_policy.h"

#include "tests/checkpoint/saved_model.h"

namespace zero {
namespace {

constexpr std::int64_t kPlenty = std::int64_t{1} << 40;
constexpr std::int64_t kPage = std::int64_t{2} << 20;

std::int64_t held_by(RankEngine& engine) {
  return engine.resources().ledger.held(Tier::kHost, MemoryTag::kStaging);
}

// One rank on a machine whose free memory a test decides.
class Machine {
 public:
  // `reserve` 0: the default reserve.
  explicit Machine(Communicator& comm, std::int64_t reserve = 0, int local_world = 1)
      : model_(comm, small_specs(), options(reserve),
               {.local_world = local_world, .seams = {.read_memory = [this] {
                                              return MemoryReading{.free_bytes = free_bytes, .pressure = pressure};
                                            }}}) {}
  RankEngine& engine() { return model_.engine(); }
  std::int64_t held() { return held_by(engine()); }
  // Whether the memory of a finished save is still held after the engine has seen this reading.
  bool keeps(std::int64_t bytes, const MemoryReading& seen) {
    ImageMemory memory(engine().resources());
    memory.take_back(memory.lend(bytes));
    free_bytes = seen.free_bytes;
    pressure = seen.pressure;
    memory.yield();
    free_bytes = kPlenty;
    pressure = 0;
    return held() == bytes;
  }
  std::atomic<std::int64_t> free_bytes{kPlenty};
  std::atomic<double> pressure{0};

 private:
  static AttachOptions options(std::int64_t reserve) {
    AttachOptions options = options_of({});
    options.offload.monitor.reserve_bytes = reserve;
    return options;
  }
  ScriptedModel model_;
};

TEST(ImageMemory, LentMemoryIsReused) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine().resources());
    EXPECT_EQ(machine.held(), 0);
    ASSERT_TRUE(memory.has_room(kPage + 5));
    EXPECT_EQ(machine.held(), 0) << "has_room() allocates nothing";
    const std::span<std::byte> lent = memory.lend(kPage + 5);
    EXPECT_EQ(std::ssize(lent), kPage + 5);
    lent.back() = std::byte{7};
    EXPECT_EQ(machine.held(), 2 * kPage);
    memory.take_back(lent);
    EXPECT_EQ(machine.held(), 2 * kPage);
    const std::span<std::byte> again = memory.lend(kPage + 9);
    EXPECT_EQ(again.data(), lent.data());
    EXPECT_EQ(again[kPage + 4], std::byte{7}) << "no fresh page";
    EXPECT_EQ(machine.held(), 2 * kPage);
    memory.take_back(again);
  });
}

TEST(ImageMemory, LargerImageReplacesTheSmaller) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine().resources());
    memory.take_back(memory.lend(kPage));
    ASSERT_TRUE(memory.has_room(3 * kPage));
    const std::span<std::byte> lent = memory.lend(3 * kPage);
    EXPECT_EQ(machine.held(), 3 * kPage);
    memory.take_back(lent);
    EXPECT_EQ(machine.held(), 3 * kPage);
  });
}

TEST(ImageMemory, KeepsOneOfTwoLoans) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine().resources());
    const std::span<std::byte> one = memory.lend(kPage), other = memory.lend(2 * kPage);
    EXPECT_EQ(machine.held(), 3 * kPage);
    memory.take_back(other);
    EXPECT_EQ(machine.held(), kPage);
    memory.take_back(one);
    EXPECT_EQ(machine.held(), kPage);
  });
}

TEST(ImageMemory, ReleasesWhenMemoryIsShort) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine().resources());
    const std::span<std::byte> lent = memory.lend(kPage);
    machine.free_bytes = 0;
    memory.yield();
    EXPECT_EQ(machine.held(), kPage) << "it is in use";
    memory.take_back(lent);
    EXPECT_EQ(machine.held(), kPage);
    memory.yield();
    EXPECT_EQ(machine.held(), 0);
  });
}

TEST(ImageMemory, WhereMemoryIsPlentyItStays) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine().resources());
    memory.take_back(memory.lend(kPage));
    memory.yield();
    EXPECT_EQ(machine.held(), kPage);
  });
}

TEST(ImageMemory, StaysWithAThirdFree) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm, /*reserve=*/1);
    EXPECT_TRUE(machine.keeps(3 * kPage, {.free_bytes = kPage}));
    EXPECT_FALSE(machine.keeps(3 * kPage, {.free_bytes = kPage - 1}));
  });
}

TEST(ImageMemory, CountsOneForEachRank) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm, /*reserve=*/1, /*local_world=*/2);
    EXPECT_TRUE(machine.keeps(3 * kPage, {.free_bytes = 2 * kPage}));
    EXPECT_FALSE(machine.keeps(3 * kPage, {.free_bytes = 2 * kPage - 1}));
  });
}

TEST(ImageMemory, EveryRankNeedsRoomForOne) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm, /*reserve=*/1, /*local_world=*/2);
    machine.free_bytes = 8 * kPage;
    EXPECT_TRUE(memory_has_room(machine.engine().resources(), 3 * kPage)) << "a quarter remains free";
    machine.free_bytes = 8 * kPage - 4;
    EXPECT_FALSE(memory_has_room(machine.engine().resources(), 3 * kPage));
  });
}

TEST(ImageMemory, ReleasesBelowTwiceTheReserve) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm, /*reserve=*/5 * kPage);
    EXPECT_TRUE(machine.keeps(kPage, {.free_bytes = 10 * kPage}));
    EXPECT_FALSE(machine.keeps(kPage, {.free_bytes = 10 * kPage - 1}));
  });
}

TEST(ImageMemory, KeepsTheInitialReserve) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    const std::int64_t reserve = default_reserve(kPlenty);
    EXPECT_TRUE(machine.keeps(kPage, {.free_bytes = 2 * reserve}));
    EXPECT_FALSE(machine.keeps(kPage, {.free_bytes = 2 * reserve - 1}));
  });
}

TEST(ImageMemory, ReleasesUnderMemoryPressure) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    EXPECT_TRUE(machine.keeps(kPage, {.free_bytes = kPlenty, .pressure = MemoryPolicy::kStalled - 1}));
    EXPECT_FALSE(machine.keeps(kPage, {.free_bytes = kPlenty, .pressure = MemoryPolicy::kStalled}));
  });
}

TEST(ImageMemory, OneThreadReadsTheMonitorsSource) {
  on_ranks(1, [](Communicator& comm) {
    std::atomic<int> inside{0}, most{0};
    const auto slow = [&] {
      const int now = ++inside;
      if (now > most) most = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // long enough for a second thread
      --inside;
      return MemoryReading{.free_bytes = kPlenty};
    };
    ScriptedModel model(comm, small_specs(), options_of({}), {.seams = {.read_memory = slow}});
    MemoryWatch monitor(model.engine().resources().read_memory, std::chrono::milliseconds(1));
    for (int i = 0; i < 20; ++i) (void)memory_has_room(model.engine().resources(), kPage);
    EXPECT_EQ(most, 1);
  });
}

TEST(ImageMemory, ReleasesBeforeASaveIsRefused) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine().resources());
    memory.take_back(memory.lend(kPage));
    machine.free_bytes = kPage;
    EXPECT_FALSE(memory.has_room(kPage)) << "a quarter of the free memory must remain";
    EXPECT_EQ(machine.held(), 0);
  });
}

TEST(ImageMemory, OneFullMachineAnswersForAll) {
  on_ranks(3, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine().resources());
    EXPECT_TRUE(memory.has_room(kPage));
    if (comm.rank() == 1) machine.free_bytes = kPage;
    memory.take_back(memory.lend(kPage));
    EXPECT_FALSE(memory.has_room(kPage));
    EXPECT_EQ(machine.held(), 0);
  });
}

}  // namespace
}  // namespace zero
