// The five movements, over every transport, world and size. Inputs are inside and outside of the transport's memory.
#include <algorithm>
#include <numeric>
#include <random>

#include "zero/comm/collectives.h"

#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

class Movements : public WorldTest {};
ZERO_INSTANTIATE_WORLDS(Movements);

TEST_P(Movements, AllGatherPlacesEveryBlock) {
  expect_world(world(), [](Communicator& comm) {
    for (const std::size_t bytes : kSizes) {
      const auto in = pattern(bytes, comm.rank());
      std::vector<std::byte> out(bytes * comm.world());
      comm.all_gather(in, out, {.unit = 1}).wait();
      for (int r = 0; r < comm.world(); ++r) EXPECT_TRUE(holds_pattern(std::span(out).subspan(r * bytes, bytes), r));
      comm.drain();
    }
  });
}

// The memory is the transport's.
TEST_P(Movements, AllGatherWorksInPlace) {
  expect_world(world(), [](Communicator& comm) {
    for (const std::size_t bytes : kSizes) {
      Allocation memory = comm.allocate(bytes * comm.world());
      const auto own = memory.bytes().subspan(comm.rank() * bytes, bytes);
      std::ranges::copy(pattern(bytes, comm.rank()), own.begin());
      comm.all_gather(own, memory.bytes(), {}).wait();
      for (int r = 0; r < comm.world(); ++r) EXPECT_TRUE(holds_pattern(memory.bytes().subspan(r * bytes, bytes), r));
      comm.drain();
    }
  });
}

TEST_P(Movements, AllToAllTransposesTheBlocks) {
  expect_world(world(), [](Communicator& comm) {
    for (const std::size_t bytes : kSizes) {
      std::vector<std::byte> in, out(bytes * comm.world());
      for (int to = 0; to < comm.world(); ++to) {
        const auto block = pattern(bytes, comm.rank() * 100 + to);
        in.insert(in.end(), block.begin(), block.end());
      }
      comm.all_to_all(in, out, {}).wait();
      for (int from = 0; from < comm.world(); ++from) {
        EXPECT_TRUE(holds_pattern(std::span(out).subspan(from * bytes, bytes), from * 100 + comm.rank()));
      }
      comm.drain();
    }
  });
}

TEST_P(Movements, BroadcastFromEachRoot) {
  expect_world(world(), [](Communicator& comm) {
    for (const std::size_t bytes : kSizes) {
      for (int root = 0; root < comm.world(); ++root) {
        auto data = pattern(bytes, comm.rank());
        comm.broadcast(data, root, {}).wait();
        EXPECT_TRUE(holds_pattern(data, root));
        comm.drain();
      }
    }
  });
}

TEST_P(Movements, MessagesArriveInOrder) {
  expect_world(world(), [](Communicator& comm) {
    if (comm.world() == 1) return;
    const int next = (comm.rank() + 1) % comm.world(), previous = (comm.rank() + comm.world() - 1) % comm.world();
    for (std::uint32_t round = 0; round < 5; ++round) {
      for (const std::size_t bytes : kSizes) {
        const auto out = pattern(bytes, comm.rank() + 1000 * round);
        std::vector<std::byte> in(bytes);
        // Both sides send first, so a message is under way before its receive begins.
        Work sent = comm.send(out, next, {});
        comm.receive(in, previous, {}).wait();
        sent.wait();
        EXPECT_TRUE(holds_pattern(in, previous + 1000 * round));
        comm.drain();
      }
    }
  });
}

TEST_P(Movements, BarrierWaitsForTheLast) {
  expect_world(world(), [](Communicator& comm) {
    // Each rank collects the finished rounds of all ranks. After the barrier, no rank may be behind.
    std::vector<std::int64_t> rounds;
    for (std::int64_t round = 0; round < 20; ++round) {
      comm.barrier({}).wait();
      rounds = all_gather_value(comm, round);
      for (const std::int64_t other : rounds) EXPECT_EQ(other, round);
    }
  });
}

// More works are in flight than a board has slots.
TEST_P(Movements, WorksWaitInAnyOrder) {
  expect_world(world(), [](Communicator& comm) {
    constexpr int kWorks = 150;
    std::vector<std::vector<std::byte>> in, out;
    std::vector<Work> works;
    for (int i = 0; i < kWorks; ++i) {
      const std::size_t bytes = kSizes[i % 6];
      in.push_back(pattern(bytes, comm.rank() + 50 * i));
      out.emplace_back(bytes * comm.world());
    }
    for (int i = 0; i < kWorks; ++i) works.push_back(comm.all_gather(in[i], out[i], {.unit = i}));
    // The order differs by rank.
    std::vector<int> order(kWorks);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(comm.rank()));
    for (const int i : order) works[i].wait();
    for (int i = 0; i < kWorks; ++i) {
      const std::size_t bytes = in[i].size();
      for (int r = 0; r < comm.world(); ++r) {
        EXPECT_TRUE(holds_pattern(std::span(out[i]).subspan(r * bytes, bytes), r + 50 * i));
      }
    }
    comm.drain();
  });
}

TEST_P(Movements, InputIsWritableAfterDrain) {
  expect_world(world(), [](Communicator& comm) {
    constexpr std::size_t kBytes = 20000;
    Allocation memory = comm.allocate(kBytes);
    std::vector<std::byte> out(kBytes * comm.world());
    for (std::uint32_t round = 0; round < 40; ++round) {
      std::ranges::copy(pattern(kBytes, comm.rank() + 10 * round), memory.data());
      comm.all_gather(memory.bytes(), out, {}).wait();
      for (int r = 0; r < comm.world(); ++r) {
        ASSERT_TRUE(holds_pattern(std::span(out).subspan(r * kBytes, kBytes), r + 10 * round));
      }
      comm.drain();
    }
  });
}

// Memory may be released between collectives.
TEST_P(Movements, MemoryIsZeroedAndAligned) {
  expect_world(world(), [](Communicator& comm) {
    for (int round = 0; round < 12; ++round) {
      const std::size_t bytes = 1000 + 4444 * round;
      Allocation memory = comm.allocate(bytes);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0u);
      ASSERT_TRUE(std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{0}; }));
      std::ranges::copy(pattern(bytes, comm.rank() + round), memory.data());
      std::vector<std::byte> out(bytes * comm.world());
      comm.all_gather(memory.bytes(), out, {}).wait();
      // There is no drain(): the release waits for readers.
      for (int r = 0; r < comm.world(); ++r) {
        ASSERT_TRUE(holds_pattern(std::span(out).subspan(r * bytes, bytes), r + round));
      }
    }
    EXPECT_FALSE(comm.allocate(0));
  });
}

// A random mix of movements, the same on all ranks by a common seed. They begin together, and are awaited in another
// order on each rank.
class RandomStep {
 public:
  RandomStep(Communicator& comm, std::mt19937& program, std::uint32_t seed) : comm_(comm), seed_(seed) {
    kind_ = static_cast<int>(program() % 3);
    bytes_ = program() % (program() % 2 == 0 ? 3000 : 100000);
    root_ = static_cast<int>(program() % comm.world());
    for (int to = 0; to < (kind_ == 1 ? comm.world() : 1); ++to) {
      const auto block = pattern(bytes_, seed + comm.rank());
      in_.insert(in_.end(), block.begin(), block.end());
    }
    out_.resize(bytes_ * comm.world());
  }

  void begin(CommTag tag) {
    if (kind_ == 0) work_ = comm_.all_gather(in_, out_, tag);
    if (kind_ == 1) work_ = comm_.all_to_all(in_, out_, tag);
    if (kind_ == 2) work_ = comm_.broadcast(in_, root_, tag);
  }
  void wait() { work_.wait(); }

  bool is_right() const {
    if (kind_ == 2) return holds_pattern(in_, seed_ + root_);
    for (int r = 0; r < comm_.world(); ++r) {
      if (!holds_pattern(std::span(out_).subspan(r * bytes_, bytes_), seed_ + r)) return false;
    }
    return true;
  }

 private:
  Communicator& comm_;
  std::uint32_t seed_;
  int kind_, root_;
  std::size_t bytes_;
  std::vector<std::byte> in_, out_;
  Work work_;
};

TEST_P(Movements, RandomProgramsPlaceEveryByte) {
  expect_world(world(), [](Communicator& comm) {
    std::mt19937 program(42), own_order(comm.rank());
    for (std::uint32_t round = 0; round < 25; ++round) {
      std::vector<RandomStep> steps;
      const std::size_t count = 1 + program() % 6;
      for (std::uint32_t s = 0; s < count; ++s) steps.emplace_back(comm, program, round * 1000 + s * 100);
      for (std::size_t s = 0; s < count; ++s) steps[s].begin({.unit = static_cast<int>(s), .control = s % 2 == 0});
      std::vector<RandomStep*> order;
      for (RandomStep& step : steps) order.push_back(&step);
      std::shuffle(order.begin(), order.end(), own_order);
      for (RandomStep* step : order) step->wait();
      for (const RandomStep& step : steps) EXPECT_TRUE(step.is_right()) << "round " << round;
      comm.drain();
    }
  });
}

}  // namespace
}  // namespace zero
