// A save's replacement of the old checkpoint, its waits, copies and writes. save_faults_test.cpp ends saves at each
// call.
#include "zero/checkpoint/save.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/read/checkpoint_reader.h"

#include "tests/checkpoint/counted_calls.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

TEST(CheckpointSaveSlow, DoesNotReplaceForeignFolders) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "results");
  folder.write("results/notes.txt", "mine");
  folder.write("file", "mine, too");
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    EXPECT_THROW(save_now(model.engine(), folder / "results"), IoError);
    EXPECT_THROW(save_now(model.engine(), folder / "file"), IoError);
    std::filesystem::create_directories(folder / "empty");
    comm.barrier({.control = true}).wait();
    save_now(model.engine(), folder / "empty/");
  });
  EXPECT_EQ(read_file(folder / "results/notes.txt"), "mine");
  EXPECT_EQ(read_file(folder / "file"), "mine, too");
  EXPECT_EQ(step_at(folder / "empty"), 0);
  EXPECT_EQ(folder.num_files(), 3u);
}

TEST(CheckpointSaveSlow, IsPrivateToItsUser) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    save_now(model.engine(), folder / "checkpoints/c");
  });
  using std::filesystem::perms;
  for (const char* name : {"checkpoints", "checkpoints/c"})
    EXPECT_EQ(std::filesystem::status(folder / name).permissions(), perms::owner_all) << name;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "checkpoints/c"))
    EXPECT_EQ(entry.status().permissions(), perms::owner_read | perms::owner_write) << entry.path();
}

TEST(CheckpointSaveSlow, FailedSyncRestoresTheOldOne) {
  // After the names have changed, sync() fails for all folders except those that the save itself opened.
  struct Unsyncable final : FileCalls {
    mutable bool changed = false;
    int exchange(const std::string& one, const std::string& other) const override {
      changed = !changed;
      return FileCalls::exchange(one, other);
    }
    int rename(const std::string& from, const std::string& to) const override {
      changed = !changed;
      return FileCalls::rename(from, to);
    }
    int sync(int fd) const override { return changed ? -EIO : FileCalls::sync(fd); }
  };
  const TemporaryFolder folder;
  on_ranks(1, [&](Communicator& comm) {
    TwoSaves saves(comm, folder / "c");
    EXPECT_THROW(saves.second(Unsyncable()), IoError);
    EXPECT_EQ(step_at(folder / "c"), 1);
    ScriptedModel model(comm, small_specs(), options_of({.world = 1}));
    EXPECT_THROW(save_now(model.engine(), folder / "first", SaveMode::kSync, Unsyncable()), IoError);
    EXPECT_EQ(step_at(folder / "first"), -1);
    EXPECT_EQ(folder.num_files(), 1u);
  });
}

TEST(CheckpointSaveSlow, WithoutExchangeOldOneMovesAside) {
  struct NoExchange final : FileCalls {
    int exchange(const std::string&, const std::string&) const override { return -EINVAL; }
  };
  const TemporaryFolder folder;
  on_ranks(1, [&](Communicator& comm) {
    TwoSaves saves(comm, folder / "c");
    saves.second(NoExchange());
    EXPECT_EQ(step_at(folder / "c"), 2);
    EXPECT_EQ(folder.num_files(), 1u);
  });
}

// A kill between the two renames of a file system without an exchange leaves no folder of that name.
TEST(CheckpointSaveSlow, KilledReplacementLosesNothing) {
  const TemporaryFolder folder;
  on_ranks(1, [&](Communicator& comm) {
    TwoSaves saves(comm, folder / "c");
    std::filesystem::rename(folder / "c", folder / "c.old.tmp");
    EXPECT_EQ(CheckpointReader(folder / "c").manifest().steps, 1) << "a load reads the replaced one";
    struct FullDisk final : FileCalls {
      ssize_t write(int, std::span<const std::byte>, std::int64_t) const override { return -ENOSPC; }
    };
    EXPECT_THROW(saves.second(FullDisk()), IoError);
    EXPECT_EQ(step_at(folder / "c"), 1) << "the next save gives it its name back";
    EXPECT_FALSE(std::filesystem::exists(folder / "c.old.tmp"));
    saves.second(FileCalls::kernel());
    EXPECT_EQ(step_at(folder / "c"), 2);
    EXPECT_EQ(folder.num_files(), 1u);
  });
}

TEST(CheckpointSaveSlow, UnawaitedSaveIsAbandoned) {
  const TemporaryFolder folder;
  on_ranks(1, [&](Communicator& comm) {
    TwoSaves saves(comm, folder / "c");
    ScriptedModel model(comm, small_specs(), options_of({.world = 1}));
    { const CheckpointSave save(model.engine(), folder / "c", {}, SaveMode::kAsync); }
    EXPECT_EQ(step_at(folder / "c"), 1);
    saves.second(FileCalls::kernel());
    EXPECT_EQ(folder.num_files(), 1u);
  });
}

TEST(CheckpointSaveSlow, OneFullDiskFailsEveryRank) {
  const TemporaryFolder folder;
  const auto ends = ends_of_ranks(3, [&](Communicator& comm) {
    TwoSaves saves(comm, folder / "c");
    const CountedCalls full(0, -ENOSPC);
    saves.second(comm.rank() == 2 ? static_cast<const FileCalls&>(full) : FileCalls::kernel());
  });
  for (const std::string& end : ends) {
    EXPECT_NE(end.find("rank 2"), std::string::npos) << end;
    EXPECT_NE(end.find("No space left"), std::string::npos) << end;
  }
  EXPECT_EQ(step_at(folder / "c"), 1);
  EXPECT_EQ(folder.num_files(), 1u);
}

// sync() takes a given time, longer than the ranks' timeout. The other ranks can only wait.
class SlowDisk final : public FileCalls {
 public:
  explicit SlowDisk(std::chrono::milliseconds takes) : takes_(takes) {}
  int sync(int) const override {
    std::this_thread::sleep_for(takes_);
    return 0;
  }

 private:
  std::chrono::milliseconds takes_;
};

TEST(CheckpointSaveSlow, SlowWriterIsWaitedFor) {
  using std::chrono::milliseconds;
  const TemporaryFolder folder;
  const milliseconds timeout(built::kSanitized ? 8000 : 2000);
  const SlowDisk slow(timeout + milliseconds(3000)), fast(milliseconds(0));
  const auto save = [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    model.train(0);
    save_now(model.engine(), folder / "c", SaveMode::kSync, comm.rank() == 1 ? slow : fast);
  };
  for (const std::string& end : ends_of_ranks(2, save, timeout)) EXPECT_EQ(end, "");
  EXPECT_EQ(step_at(folder / "c"), 1);
}

TEST(CheckpointSaveSlow, TrainingDoesNotChangeTheSave) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    train_steps(model, 0, 2, 1);
    save_now(model.engine(), folder / "sync", SaveMode::kSync);
    CheckpointSave save(model.engine(), folder / "async", {.run = {{"step", "3"}}}, SaveMode::kAsync);
    EXPECT_TRUE(save.copied());
    int polls = 0;
    for (int step = 2; !save.poll(); ++step, ++polls) train_steps(model, step, step + 1, 1);
    EXPECT_TRUE(save.poll());
    EXPECT_EQ(model.engine().resources().ledger.held(Tier::kHost, MemoryTag::kStaging), 0);
  });
  EXPECT_EQ(read_manifest(folder / "sync"), read_manifest(folder / "async"));
}

TEST(CheckpointSaveSlow, SecondAsyncSaveReusesMemory) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    const Ledger& ledger = model.engine().resources().ledger;
    const auto held = [&] { return ledger.held(Tier::kHost, MemoryTag::kStaging); };
    constexpr std::int64_t kBlocks = std::int64_t{32} << 20;  // buffers for writes of a file
    ImageMemory memory(model.engine().resources());
    const auto save = [&](const std::filesystem::path& path, SaveMode mode) {
      CheckpointSave save(model.engine(), path, {.run = {{"step", "3"}}}, mode, FileCalls::kernel(), &memory);
      save.wait();
    };
    train_steps(model, 0, 1, 1);
    save(folder / "first", SaveMode::kAsync);
    const std::int64_t kept = held();
    EXPECT_GT(kept, 0);
    train_steps(model, 1, 2, 1);
    model.engine().resources().ledger.reset_peak();
    save(folder / "async", SaveMode::kAsync);
    EXPECT_EQ(held(), kept);
    EXPECT_EQ(ledger.peak(Tier::kHost)[MemoryTag::kStaging], kept + kBlocks);
    model.engine().resources().ledger.reset_peak();
    save(folder / "sync", SaveMode::kSync);
    EXPECT_EQ(held(), 0) << "a synchronous save copies nothing";
    EXPECT_EQ(ledger.peak(Tier::kHost)[MemoryTag::kStaging], std::max(kept, kBlocks));
  });
  EXPECT_EQ(read_manifest(folder / "async"), read_manifest(folder / "sync"));
  for (const char* name : {"async", "sync"}) EXPECT_NO_THROW(CheckpointReader(folder / name).verify()) << name;
  EXPECT_NE(read_manifest(folder / "first"), read_manifest(folder / "async"));
}

TEST(CheckpointSaveSlow, ThreadedCopyHasSameBytes) {
  const TemporaryFolder folder;
  on_ranks(1, [&](Communicator& comm) {
    AttachOptions options = options_of({.world = 1});
    options.threads = 3;
    // The threads have more than one piece of work.
    ScriptedModel model(comm, {{.name = "large", .shape = {3 << 20}}, {.name = "small", .shape = {7}}}, options);
    model.train(0);
    save_now(model.engine(), folder / "sync", SaveMode::kSync);
    save_now(model.engine(), folder / "async", SaveMode::kAsync);
  });
  EXPECT_EQ(read_manifest(folder / "async"), read_manifest(folder / "sync"));
  EXPECT_NO_THROW(CheckpointReader(folder / "async").verify());
}

TEST(CheckpointSaveSlow, NoRoomMakesAllWriteDirectly) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    const std::int64_t free_bytes = comm.rank() == 1 ? 4096 : std::int64_t{1} << 40;
    ScriptedModel model(comm, small_specs(), options_of({}),
                        {.seams = {.read_memory = [=] { return MemoryReading{.free_bytes = free_bytes}; }}});
    model.train(0);
    CheckpointSave save(model.engine(), folder / "c", {}, SaveMode::kAsync);
    EXPECT_FALSE(save.copied());
    EXPECT_TRUE(save.poll()) << "all have written";
    EXPECT_EQ(model.engine().resources().ledger.held(Tier::kHost, MemoryTag::kStaging), 0);
  });
  EXPECT_EQ(step_at(folder / "c"), 1);
}

TEST(CheckpointSaveSlow, EveryStageWritesTheSameBytes) {
  const TemporaryFolder folder;
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(3, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(DType::kBFloat16),
                          options_of({.world = 3, .stage = stage, .dtype = DType::kBFloat16}));
      train_steps(model, 0, 2, 1);
      save_now(model.engine(), folder / std::to_string(stage));
    });
    EXPECT_EQ(read_manifest(folder / "0"), read_manifest(folder / std::to_string(stage)));
  }
}

TEST(CheckpointSaveSlow, FilesAreForTheirOwnerAlone) {
  const TemporaryFolder folder;
  on_ranks(1, [&](Communicator& comm) { TwoSaves(comm, folder / "run/c"); });
  namespace fs = std::filesystem;
  const auto others = fs::perms::group_all | fs::perms::others_all;
  EXPECT_EQ(fs::status(folder / "run/c").permissions() & others, fs::perms::none);
  for (const auto& entry : fs::directory_iterator(folder / "run/c"))
    EXPECT_EQ(entry.status().permissions() & others, fs::perms::none) << entry.path();
}

}  // namespace
}  // namespace zero
