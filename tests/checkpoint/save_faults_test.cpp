// A save that ends or fails at each of its file calls. Afterwards there is the old checkpoint, the new one or, at a
// first save, none.
#include <algorithm>
#include <atomic>
#include <iostream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/counted_calls.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

TEST(CheckpointSaveSlow, KilledAnywhereLeavesOldOrNew) {
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
      // The next save removes files that the failed one left.
      EXPECT_NO_THROW(saves.second(FileCalls::kernel())) << "call " << last;
      EXPECT_EQ(step_at(folder / "c"), 2);
      EXPECT_EQ(folder.num_files(), 1u) << "call " << last;
    });
  }
  EXPECT_GT(old, 10);
  EXPECT_GT(fresh, 1);
  std::cout << fmt::format("{} calls: the old one {} times, the new one {} times\n", num_calls, old, fresh);
}

TEST(CheckpointSaveSlow, FirstOneIsWholeOrAbsent) {
  int num_calls = kNever;
  for (int last = 0; last <= num_calls; ++last) {
    const TemporaryFolder folder;
    on_ranks(1, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), options_of({.world = 1}));
      model.train(0);
      const CountedCalls calls(last);
      try {
        save_now(model.engine(), folder / "checkpoints/c", SaveMode::kSync, calls);
        if (calls.count() <= last) num_calls = calls.count();
      } catch (const IoError&) {
      }
      const std::int64_t step = step_at(folder / "checkpoints/c");
      EXPECT_TRUE(step == -1 || step == 1) << "call " << last << ": step " << step;
    });
  }
  EXPECT_GT(num_calls, 13);
  std::cout << fmt::format("{} calls\n", num_calls);
}

TEST(CheckpointSaveSlow, FailingCallKeepsTheOldOne) {
  for (const int error : {-EIO, -ENOSPC}) {
    for (const SaveMode mode : {SaveMode::kSync, SaveMode::kAsync}) {
      int failed = 0, num_calls = kNever;
      for (int which = 0; which <= num_calls; ++which) {
        const TemporaryFolder folder;
        on_ranks(1, [&](Communicator& comm) {
          TwoSaves saves(comm, folder / "c", mode);
          const CountedCalls calls(which, error, /*recovers=*/true);
          bool threw = false;
          try {
            saves.second(calls);
            if (calls.count() <= which) num_calls = calls.count();
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
      std::cout << fmt::format("{} calls, {} of which were told\n", num_calls, failed);
    }
  }
}

// A disk that is full after a number of bytes, and on which nothing can be preallocated.
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

TEST(CheckpointSaveSlow, FullDiskKeepsTheOldOne) {
  // Parameter and two moments, half of each on a rank: 5.4 MiB in two blocks.
  const std::vector<ParamSpec> specs{{.name = "weight", .shape = {1400, 700}}};
  constexpr std::int64_t kShard = std::int64_t{3} * 1400 * 700 * 4 / 2;
  for (int part = 0; part < 64; part += in_full_tier() ? 1 : 9) {
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
    // A file has more bytes than its tensors: also a header and the end of its last page. So none of these sizes is
    // enough.
    EXPECT_EQ(failed.load(), 2) << "full after " << full_after;
    EXPECT_EQ(step_at(folder / "c"), 1) << "full after " << full_after;
    EXPECT_EQ(folder.num_files(), 1u) << "left something behind";
  }
}

TEST(CheckpointSaveSlow, FullDiskAtManifestKeepsOld) {
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

}  // namespace
}  // namespace zero
