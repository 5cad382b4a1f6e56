#include "zero/checkpoint/read/fetch_blocks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "tests/checkpoint/several_launchers.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

// The files that a launcher fetches for ranks that load step 2, and their bytes in a rank's ledger.
struct Fetched {
  std::vector<std::string> names;
  std::int64_t most_bytes = 0, bytes_after = 0;
};

Fetched fetched_to_the_second(SeveralLaunchers& machines, const Cell& cell) {
  Fetched found;
  on_ranks(machines.world(), [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(cell.dtype), options_of(cell));
    InMemoryCheckpoints kept(machines.connect(comm), "run", comm);
    const auto staging = [&] { return model.engine().resources().ledger.held(Tier::kHost, MemoryTag::kStaging); };
    {
      InMemoryFiles files = kept.files_of(2);
      const auto fetch = [&](const CheckpointReader& reader) { files.fetch(model.engine().resources(), reader); };
      const auto look = [&] {
        if (comm.rank() != 1) return;
        found.most_bytes = staging();
        for (const std::string& name : machines.connect(comm).list(""))
          if (name.find("/fetched/") != std::string::npos) found.names.push_back(name.substr(name.rfind('/') + 1));
      };
      load_checkpoint(model.engine(), kept.path_of(2), files, {.fetch = fetch, .begin = look});
    }
    if (comm.rank() == 1) found.bytes_after = staging();
  });
  return found;
}

TEST(FetchBlocks, OwnFileNeedsNoFetch) {
  SeveralLaunchers machines({0, 1});
  machines.run({.stage = 3}, 0, 3, {2});
  const Fetched fetched = fetched_to_the_second(machines, {.stage = 3});
  EXPECT_EQ(fetched.names, std::vector<std::string>{});
  EXPECT_EQ(fetched.most_bytes, 0);
}

TEST(FetchBlocks, WholeStatesComeFromAnotherMachine) {
  SeveralLaunchers machines({0, 1});
  machines.run({.stage = 1}, 0, 3, {2});
  const Fetched fetched = fetched_to_the_second(machines, {.stage = 1});
  EXPECT_EQ(fetched.names, std::vector<std::string>{"rank-00000.safetensors"});
  EXPECT_GT(fetched.most_bytes, 0);
  EXPECT_EQ(fetched.bytes_after, 0);
}

TEST(FetchBlocksOnAnyDevice, RemoteFlippedBitIsFound) {
  SeveralLaunchers machines({0, 1});
  machines.run({.stage = 1}, 0, 3, {2});
  const auto folder = InMemoryCheckpoints(machines.launcher(0).connect(), "run").path_of(2);
  const int file = machines.launcher(0).find((folder / "rank-00000.safetensors").string());
  ASSERT_GE(file, 0);
  unsigned char byte = 0;
  ASSERT_EQ(pread(file, &byte, 1, 2000), 1);
  byte ^= 4;
  ASSERT_EQ(pwrite(file, &byte, 1, 2000), 1);
  EXPECT_THROW(fetched_to_the_second(machines, {.stage = 1}), Error);
}

TEST(FetchBlocks, MissingFileIsNamedBeforeChanges) {
  SeveralLaunchers machines({0, 1});
  machines.run({.stage = 1}, 0, 3, {2});
  const auto folder = InMemoryCheckpoints(machines.launcher(0).connect(), "run").path_of(2);
  machines.launcher(0).connect().remove((folder / "rank-00000").string());
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({.stage = 1}));
    InMemoryCheckpoints kept(machines.connect(comm), "run", comm);
    const auto before = state_bits(model.engine());
    EXPECT_TRUE(says(message_of<IoError>([&] { SeveralLaunchers::load(kept, model.engine(), 2); }),
                     "no machine has rank-00000.safetensors"));
    EXPECT_EQ(state_bits(model.engine()), before);
  });
}

TEST(FetchBlocks, MachineWithoutMemoryFailsAllRanks) {
  SeveralLaunchers machines({0, 1});
  machines.run({.stage = 1}, 0, 3, {2});
  on_ranks(2, [&](Communicator& comm) {
    const std::int64_t free_bytes = comm.rank() == 1 ? 16 : std::int64_t{1} << 40;
    ScriptedModel model(comm, small_specs(), options_of({.stage = 1}),
                        {.seams = {.read_memory = [&] { return MemoryReading{.free_bytes = free_bytes}; }}});
    InMemoryCheckpoints kept(machines.connect(comm), "run", comm);
    EXPECT_TRUE(says(message_of<IoError>([&] { SeveralLaunchers::load(kept, model.engine(), 2); }), "no memory for"));
  });
}

// More ranks run on the same machines. Missing blocks are fetched, and rank 2 takes the extras of rank 2 % 2.
TEST(FetchBlocks, AnotherWorldReadsItsMachines) {
  SeveralLaunchers machines({0, 1});
  machines.run({.stage = 3}, 0, 3, {2});
  on_ranks(3, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({.world = 3, .stage = 3}));
    InMemoryCheckpoints kept(machines.launcher(comm.rank() == 0 ? 0 : 1).connect(), "run", comm);
    EXPECT_EQ(kept.agree(comm).steps, std::vector<std::int64_t>{2});
    EXPECT_EQ(SeveralLaunchers::load(kept, model.engine(), 2).manifest.files.size(), 2U);
  });
}

}  // namespace
}  // namespace zero
