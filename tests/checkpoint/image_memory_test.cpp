#include "zero/checkpoint/image_memory.h"

#include <atomic>

#include <gtest/gtest.h>

#include "saved_model.h"

namespace zero {
namespace {

constexpr std::int64_t kPlenty = std::int64_t{1} << 40;
constexpr std::int64_t kPage = std::int64_t{2} << 20;

std::int64_t held_by(Engine& engine) {
  return engine.ledger().held(Tier::kHost, MemoryTag::kStaging);
}

// One rank on a machine with so much free memory as a test says.
class Machine {
 public:
  explicit Machine(Communicator& comm) : model_(comm, small_specs(), options()) {}
  Engine& engine() { return model_.engine(); }
  std::int64_t held() { return held_by(engine()); }
  std::atomic<std::int64_t> free_bytes{kPlenty};

 private:
  EngineOptions options() {
    EngineOptions options = options_of({});
    options.offload.monitor.read = [this] { return MemoryReading{.free_bytes = free_bytes}; };
    return options;
  }
  ScriptedModel model_;
};

TEST(ImageMemory, ItIsHeldFromTheFirstLoanOnAndLentAgain) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine());
    EXPECT_EQ(machine.held(), 0);
    ASSERT_TRUE(memory.has_room(kPage + 5));
    EXPECT_EQ(machine.held(), 0) << "a question takes nothing";
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

TEST(ImageMemory, ALargerImageTakesTheSmallerOnesPlace) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine());
    memory.take_back(memory.lend(kPage));
    ASSERT_TRUE(memory.has_room(3 * kPage));
    const std::span<std::byte> lent = memory.lend(3 * kPage);
    EXPECT_EQ(machine.held(), 3 * kPage);
    memory.take_back(lent);
    EXPECT_EQ(machine.held(), 3 * kPage);
  });
}

TEST(ImageMemory, OfTwoLoansAtATimeOneIsKept) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine());
    const std::span<std::byte> one = memory.lend(kPage), other = memory.lend(2 * kPage);
    EXPECT_EQ(machine.held(), 3 * kPage);
    memory.take_back(other);
    EXPECT_EQ(machine.held(), kPage);
    memory.take_back(one);
    EXPECT_EQ(machine.held(), kPage);
  });
}

TEST(ImageMemory, WhereMemoryIsShortItGoesAtTheNextLook) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine());
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
    ImageMemory memory(machine.engine());
    memory.take_back(memory.lend(kPage));
    memory.yield();
    EXPECT_EQ(machine.held(), kPage);
  });
}

TEST(ImageMemory, WhatIsKeptIsGivenBackBeforeASaveIsRefusedMemory) {
  on_ranks(1, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine());
    memory.take_back(memory.lend(kPage));
    machine.free_bytes = kPage;
    EXPECT_FALSE(memory.has_room(kPage)) << "a quarter of what is free is left over";
    EXPECT_EQ(machine.held(), 0);
  });
}

TEST(ImageMemory, OneMachineWithoutRoomIsEveryRanksAnswer) {
  on_ranks(3, [](Communicator& comm) {
    Machine machine(comm);
    ImageMemory memory(machine.engine());
    EXPECT_TRUE(memory.has_room(kPage));
    if (comm.rank() == 1) machine.free_bytes = kPage;
    memory.take_back(memory.lend(kPage));
    EXPECT_FALSE(memory.has_room(kPage));
    EXPECT_EQ(machine.held(), 0);
  });
}

}  // namespace
}  // namespace zero
