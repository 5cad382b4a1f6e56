// What a save leaves behind however it ends: at any instant the old checkpoint, the new one or, at first, none.
#include "zero/checkpoint/save.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/checkpoint/checkpoint_reader.h"

#include "../sanitized.h"
#include "saved_model.h"

namespace zero {
namespace {

// The kernel's calls, of which those that change a file are counted; from the `last`-th on they do nothing and fail, as
// if the process were gone (or, with `recovers`, only that one fails).
class CountedCalls final : public FileCalls {
 public:
  explicit CountedCalls(int last, int error = -EIO, bool recovers = false)
      : last_(last), error_(error), recovers_(recovers) {}
  int count() const { return count_; }

  int open(const std::string& path, int flags) const override {
    if ((flags & O_CREAT) == 0) return FileCalls::open(path, flags);
    return dead() ? error_ : FileCalls::open(path, flags);
  }
  int unlink(const std::string& path) const override { return dead() ? error_ : FileCalls::unlink(path); }
  int preallocate(int fd, std::int64_t bytes) const override {
    return dead() ? error_ : FileCalls::preallocate(fd, bytes);
  }
  int resize(int fd, std::int64_t bytes) const override { return dead() ? error_ : FileCalls::resize(fd, bytes); }
  int sync(int fd) const override { return dead() ? error_ : FileCalls::sync(fd); }
  int make_folder(const std::string& path) const override { return dead() ? error_ : FileCalls::make_folder(path); }
  int remove_folder(const std::string& path) const override { return dead() ? error_ : FileCalls::remove_folder(path); }
  int rename(const std::string& from, const std::string& to) const override {
    return dead() ? error_ : FileCalls::rename(from, to);
  }
  int exchange(const std::string& one, const std::string& other) const override {
    return dead() ? error_ : FileCalls::exchange(one, other);
  }
  ssize_t write(int fd, std::span<const std::byte> from, std::int64_t offset) const override {
    if (!dead()) return FileCalls::write(fd, from, offset);
    // A torn write: half of it is there.
    (void)FileCalls::write(fd, from.first(from.size() / 2 / 4096 * 4096), offset);
    return error_;
  }

 private:
  bool dead() const {
    const int now = count_++;
    return recovers_ ? now == last_ : now >= last_;
  }
  int last_, error_;
  bool recovers_;
  mutable std::atomic<int> count_{0};
};

constexpr int kNever = 1 << 30;

// The step that a checkpoint says, or -1 where nothing has the name. Every byte is looked at.
std::int64_t step_at(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return -1;
  CheckpointReader reader(path);
  reader.verify();
  return reader.manifest().steps;
}

// Of one rank: one step, and one more, saved at the same path with these calls.
class TwoSaves {
 public:
  explicit TwoSaves(Communicator& comm, const std::filesystem::path& path, SaveMode mode = SaveMode::kSync,
                    const std::vector<ParamSpec>& specs = small_specs())
      : model_(comm, specs, options_of({.world = comm.world()})), path_(path), mode_(mode) {
    model_.train(0);
    save_now(model_.engine(), path_, mode_);
    model_.train(1);
  }
  void second(const FileCalls& calls) { save_now(model_.engine(), path_, mode_, calls); }

 private:
  ScriptedModel model_;
  std::filesystem::path path_;
  SaveMode mode_;
};

TEST(CheckpointSave, KilledAtAnyCallItLeavesTheOldOrTheNewCheckpoint) {
  int num_calls = 0;
  {
    const TemporaryFolder folder;
    on_ranks(1, [&](Communicator& comm) {
      const CountedCalls calls(kNever);
      TwoSaves(comm, folder / "c").second(calls);
      num_calls = calls.count();
    });
  }
  EXPECT_GT(num_calls, 15);
  int old = 0, fresh = 0;
  for (int last = 0; last <= num_calls; ++last) {
    const TemporaryFolder folder;
    on_ranks(1, [&](Communicator& comm) {
      TwoSaves saves(comm, folder / "c");
      try {
        saves.second(CountedCalls(last));
      } catch (const IoError&) {
      }
      const std::int64_t step = step_at(folder / "c");
      EXPECT_TRUE(step == 1 || step == 2) << "call " << last << ": step " << step;
      (step == 1 ? old : fresh)++;
      // What was left in the way of the next save goes.
      EXPECT_NO_THROW(saves.second(FileCalls::kernel())) << "call " << last;
      EXPECT_EQ(step_at(folder / "c"), 2);
      EXPECT_EQ(folder.num_files(), 1u) << "call " << last;
    });
  }
  EXPECT_GT(old, 10);
  EXPECT_GT(fresh, 1);
}

TEST(CheckpointSave, TheFirstOneIsThereWholeOrNotAtAll) {
  for (int last = 0; last < 40; ++last) {
    const TemporaryFolder folder;
    on_ranks(1, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), options_of({.world = 1}));
      model.train(0);
      try {
        save_now(model.engine(), folder / "checkpoints/c", SaveMode::kSync, CountedCalls(last));
      } catch (const IoError&) {
      }
      const std::int64_t step = step_at(folder / "checkpoints/c");
      EXPECT_TRUE(step == -1 || step == 1) << "call " << last << ": step " << step;
    });
  }
}

TEST(CheckpointSave, AFailingCallIsToldLeavesTheOldOneAndNothingElse) {
  for (const int error : {-EIO, -ENOSPC}) {
    for (const SaveMode mode : {SaveMode::kSync, SaveMode::kAsync}) {
      int failed = 0;
      for (int which = 0; which < 30; ++which) {
        const TemporaryFolder folder;
        on_ranks(1, [&](Communicator& comm) {
          TwoSaves saves(comm, folder / "c", mode);
          bool threw = false;
          try {
            saves.second(CountedCalls(which, error, /*recovers=*/true));
          } catch (const IoError& told) {
            threw = true;
            EXPECT_NE(std::string(told.what()).find(folder.path().string()), std::string::npos) << told.what();
          }
          failed += threw ? 1 : 0;
          const std::int64_t step = step_at(folder / "c");
          EXPECT_TRUE(step == 2 || (threw && step == 1)) << "call " << which << ": step " << step;
          EXPECT_TRUE(step == 2 || folder.num_files() == 1) << "call " << which << " left something behind";
          EXPECT_NO_THROW(saves.second(FileCalls::kernel()));
          EXPECT_EQ(step_at(folder / "c"), 2);
        });
      }
      EXPECT_GT(failed, 10);
    }
  }
}

// A disk that is full after so many bytes, of which nothing was reserved.
class FullAfter final : public FileCalls {
 public:
  explicit FullAfter(std::int64_t bytes) : left_(bytes) {}
  int preallocate(int, std::int64_t) const override { return -EOPNOTSUPP; }
  ssize_t write(int fd, std::span<const std::byte> from, std::int64_t offset) const override {
    const auto whole = std::ssize(from);
    const std::int64_t fits = std::clamp<std::int64_t>(left_.fetch_sub(whole), 0, whole) / 4096 * 4096;
    const ssize_t written = FileCalls::write(fd, from.first(static_cast<std::size_t>(fits)), offset);
    return written > 0 ? written : -ENOSPC;
  }

 private:
  mutable std::atomic<std::int64_t> left_;
};

TEST(CheckpointSave, ADiskThatIsFullAfterAnyNumberOfBytesKeepsTheOldOne) {
  // Parameter and two moments, half of each a rank: 5.4 MiB, in two blocks.
  const std::vector<ParamSpec> specs{{.name = "weight", .shape = {1400, 700}}};
  constexpr std::int64_t kShard = std::int64_t{3} * 1400 * 700 * 4 / 2;
  for (int part = 0; part < 64; ++part) {
    const std::int64_t full_after = kShard * part / 63;
    const TemporaryFolder folder;
    std::atomic<int> failed = 0;
    on_ranks(2, [&](Communicator& comm) {
      TwoSaves saves(comm, folder / "c", SaveMode::kSync, specs);
      const FullAfter calls(full_after);
      try {
        saves.second(calls);
      } catch (const IoError& error) {
        ++failed;
        EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
      }
    });
    // Header and page end are more than the tensors: all of these are too few.
    EXPECT_EQ(failed.load(), 2) << "full after " << full_after;
    EXPECT_EQ(step_at(folder / "c"), 1) << "full after " << full_after;
    EXPECT_EQ(folder.num_files(), 1u) << "left something behind";
  }
}

TEST(CheckpointSave, WhereTheDiskHoldsTheShardsButNotTheManifestTheOldOneStays) {
  std::atomic<int> failed = 0;
  int saved = 0;
  for (int pages = 0; pages < 8; ++pages) {
    const TemporaryFolder folder;
    on_ranks(2, [&](Communicator& comm) {
      TwoSaves saves(comm, folder / "c");
      const FullAfter calls(pages * 4096);
      try {
        saves.second(calls);
      } catch (const IoError& error) {
        failed += comm.rank() == 0 ? 1 : 0;
        EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
      }
    });
    saved += step_at(folder / "c") == 2 ? 1 : 0;
    EXPECT_EQ(folder.num_files(), 1u) << "left something behind";
  }
  EXPECT_EQ(failed.load() + saved, 8);
  EXPECT_GT(failed.load(), 1) << "before the shards, and before the manifest";
  EXPECT_GT(saved, 1);
}

TEST(CheckpointSave, WhatIsNoCheckpointIsNotReplaced) {
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

TEST(CheckpointSave, ACheckpointIsForItsUserAlone) {
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

TEST(CheckpointSave, AFolderThatCannotBeSyncedHasTheOldOneBack) {
  // Every open of a folder but the save's own fails to sync once the names have changed.
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

TEST(CheckpointSave, WhereNamesCannotBeExchangedTheOldOneStepsAside) {
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

TEST(CheckpointSave, OneThatNobodyWaitsForIsGivenUp) {
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

TEST(CheckpointSave, OneRanksFullDiskIsEveryRanksError) {
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

// Syncing takes as long as it says.
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

TEST(CheckpointSave, ARankThatWritesLongerThanRanksWaitForAnotherIsWaitedFor) {
  using std::chrono::milliseconds;
  const TemporaryFolder folder;
  const milliseconds timeout(kSanitized ? 8000 : 2000);
  const SlowDisk slow(timeout + milliseconds(3000)), fast(milliseconds(0));
  const auto save = [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    model.train(0);
    save_now(model.engine(), folder / "c", SaveMode::kSync, comm.rank() == 1 ? slow : fast);
  };
  for (const std::string& end : ends_of_ranks(2, save, timeout)) EXPECT_EQ(end, "");
  EXPECT_EQ(step_at(folder / "c"), 1);
}

TEST(CheckpointSave, TrainingOnDoesNotChangeWhatIsSaved) {
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
    EXPECT_EQ(model.engine().ledger().held(Tier::kHost, MemoryTag::kStaging), 0);
  });
  EXPECT_EQ(read_manifest(folder / "sync"), read_manifest(folder / "async"));
}

TEST(CheckpointSave, TheSecondAsynchronousOneTakesNoMemoryAndWritesTheSameBytes) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    const Ledger& ledger = model.engine().ledger();
    const auto held = [&] { return ledger.held(Tier::kHost, MemoryTag::kStaging); };
    constexpr std::int64_t kBlocks = std::int64_t{32} << 20;  // that a file is written through
    ImageMemory memory(model.engine());
    const auto save = [&](const std::filesystem::path& path, SaveMode mode) {
      CheckpointSave save(model.engine(), path, {.run = {{"step", "3"}}}, mode, FileCalls::kernel(), &memory);
      save.wait();
    };
    train_steps(model, 0, 1, 1);
    save(folder / "first", SaveMode::kAsync);
    const std::int64_t kept = held();
    EXPECT_GT(kept, 0);
    train_steps(model, 1, 2, 1);
    model.engine().ledger().reset_peak();
    save(folder / "async", SaveMode::kAsync);
    EXPECT_EQ(held(), kept);
    EXPECT_EQ(ledger.peak(Tier::kHost)[MemoryTag::kStaging], kept + kBlocks);
    model.engine().ledger().reset_peak();
    save(folder / "sync", SaveMode::kSync);
    EXPECT_EQ(held(), 0) << "who saves so copies nothing";
    EXPECT_EQ(ledger.peak(Tier::kHost)[MemoryTag::kStaging], std::max(kept, kBlocks));
  });
  EXPECT_EQ(read_manifest(folder / "async"), read_manifest(folder / "sync"));
  for (const char* name : {"async", "sync"}) EXPECT_NO_THROW(CheckpointReader(folder / name).verify()) << name;
  EXPECT_NE(read_manifest(folder / "first"), read_manifest(folder / "async"));
}

TEST(CheckpointSave, ACopyByThreadsIsTheSameBytes) {
  const TemporaryFolder folder;
  on_ranks(1, [&](Communicator& comm) {
    EngineOptions options = options_of({.world = 1});
    options.threads = 3;
    // More than one piece of work for the threads.
    ScriptedModel model(comm, {{.name = "large", .shape = {3 << 20}}, {.name = "small", .shape = {7}}}, options);
    model.train(0);
    save_now(model.engine(), folder / "sync", SaveMode::kSync);
    save_now(model.engine(), folder / "async", SaveMode::kAsync);
  });
  EXPECT_EQ(read_manifest(folder / "async"), read_manifest(folder / "sync"));
  EXPECT_NO_THROW(CheckpointReader(folder / "async").verify());
}

TEST(CheckpointSave, WhereOneRankHasNoRoomForACopyEveryRankWritesAtOnce) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    EngineOptions options = options_of({});
    const std::int64_t free_bytes = comm.rank() == 1 ? 4096 : std::int64_t{1} << 40;
    options.offload.monitor.read = [=] { return MemoryReading{.free_bytes = free_bytes}; };
    ScriptedModel model(comm, small_specs(), options);
    model.train(0);
    CheckpointSave save(model.engine(), folder / "c", {}, SaveMode::kAsync);
    EXPECT_FALSE(save.copied());
    EXPECT_TRUE(save.poll()) << "all have written";
    EXPECT_EQ(model.engine().ledger().held(Tier::kHost, MemoryTag::kStaging), 0);
  });
  EXPECT_EQ(step_at(folder / "c"), 1);
}

TEST(CheckpointSave, EveryStageWritesTheSameBytes) {
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

TEST(CheckpointSave, FilesAreForTheirOwnerAlone) {
  const TemporaryFolder folder;
  on_ranks(1, [&](Communicator& comm) { TwoSaves(comm, folder / "run/c"); });
  namespace fs = std::filesystem;
  const auto others = fs::perms::group_all | fs::perms::others_all;
  EXPECT_EQ(fs::status(folder / "run/c").permissions() & others, fs::perms::none);
  for (const auto& entry : fs::directory_iterator(folder / "run/c"))
    EXPECT_EQ(entry.status().permissions() & others, fs::perms::none) << entry.path();
}

// Damage of every kind, at random: what is read is what was saved, or an error.
TEST(CheckpointSave, NoMutationOfACheckpointGoesUnseen) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    train_steps(model, 0, 2, 1);
    save_now(model.engine(), folder / "one");
    train_steps(model, 2, 3, 1);
    save_now(model.engine(), folder / "two");
  });
  const char* const wanted = std::getenv("ZERO_MUTATIONS");
  const int count = wanted != nullptr ? std::atoi(wanted) : 500;
  std::mt19937 draw(7);
  const auto below = [&](std::uintmax_t n) { return static_cast<std::uintmax_t>(draw()) % n; };
  const std::vector<std::string> names{"manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"};
  int undetected = 0;
  for (int i = 0; i < count; ++i) {
    const fs::path copy = folder / "copy";
    fs::remove_all(copy);
    fs::copy(folder / "one", copy);
    const fs::path victim = copy / names[below(3)];
    const auto size = fs::file_size(victim);
    std::fstream file(victim, std::ios::in | std::ios::out | std::ios::binary);
    const int kind = static_cast<int>(below(6));
    std::string what;
    if (kind == 0) {
      fs::resize_file(victim, below(size));
    } else if (kind == 1) {  // a page becomes zeros; of a page that was zeros another byte
      const auto at = below(size);
      const std::string zeros(static_cast<std::size_t>(std::min<std::uintmax_t>(4096, size - at)), '\0');
      std::string before(zeros.size(), '\0');
      file.seekg(static_cast<std::streamoff>(at)).read(before.data(), std::ssize(before));
      file.seekp(static_cast<std::streamoff>(at));
      file << (before == zeros ? std::string(zeros.size(), '\1') : zeros);
    } else if (kind == 2) {
      const auto at = static_cast<std::streamoff>(below(size));
      const int byte = file.seekg(at).get();
      file.seekp(at).put(static_cast<char>(byte ^ (1 << below(8))));
    } else if (kind == 3) {
      fs::rename(copy / names[1], copy / "swap");
      fs::rename(copy / names[2], copy / names[1]);
      fs::rename(copy / "swap", copy / names[2]);
    } else if (kind == 4) {
      fs::copy_file(folder / "two" / victim.filename(), victim, fs::copy_options::overwrite_existing);
      // The manifest of another step with these files, or one file of another step.
    } else {
      fs::remove(victim);
    }
    file.close();
    try {
      CheckpointReader(copy).verify();
      ++undetected;
      ADD_FAILURE() << "mutation " << i << " of kind " << kind << " of " << victim.filename();
    } catch (const IoError&) {
    }
  }
  EXPECT_EQ(undetected, 0);
  RecordProperty("mutations", count);
}

}  // namespace
}  // namespace zero
