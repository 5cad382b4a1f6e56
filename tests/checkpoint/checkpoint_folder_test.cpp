#include "zero/checkpoint/checkpoint_folder.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

fs::path make(const fs::path& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / "manifest.json") << "{}";
  std::ofstream(folder / "rank-00000.safetensors") << "x";
  return folder;
}

TEST(CheckpointFolder, ListsNewestStepsFirst) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  for (const std::int64_t step : {9, 100000000, 20}) make(checkpoints.path_of(step));
  make(folder / "step-00000030.tmp");
  make(folder / "step-");
  make(folder / "other");
  folder.write("step-00000040", "a file");
  std::vector<std::int64_t> steps;
  for (const auto& entry : checkpoints.list()) steps.push_back(entry.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{100000000, 20, 9}));
}

// A killed save may have set a checkpoint aside. It counts unless its name is taken.
TEST(CheckpointFolder, ListsCheckpointsThatWereSetAside) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  for (const char* const name : {"step-00000003", "step-00000003.old.tmp", "step-00000005.old.tmp"})
    make(folder / name);
  const std::vector<CheckpointFolder::Entry> both{{5, checkpoints.path_of(5)}, {3, checkpoints.path_of(3)}};
  EXPECT_EQ(checkpoints.list(), both);
  checkpoints.keep(2, 5);
  EXPECT_EQ(checkpoints.list(), both);
  EXPECT_FALSE(fs::exists(folder / "step-00000003.old.tmp"));
  checkpoints.keep(1, 9, /*spared=*/3);
  EXPECT_TRUE(fs::exists(folder / "step-00000005.old.tmp"));
  checkpoints.clear();
  EXPECT_TRUE(checkpoints.list().empty());
  EXPECT_FALSE(fs::exists(folder / "step-00000005.old.tmp"));
}

TEST(CheckpointFolder, MissingFolderIsEmpty) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder / "none");
  EXPECT_TRUE(checkpoints.list().empty());
  EXPECT_NO_THROW(checkpoints.keep(1, 9));
}

TEST(CheckpointFolder, KeepsNewestAndRemovesUnfinished) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  for (std::int64_t step = 1; step <= 5; ++step) make(checkpoints.path_of(step));
  for (const char* const unfinished : {"step-00000005.tmp", "step-00000004.section-1.tmp.tmp", "step-.tmp"})
    make(folder / unfinished);
  make(folder / "step-00000006.section-3.tmp.tmp");
  make(folder / "mine");
  checkpoints.keep(2, 5);
  EXPECT_EQ(checkpoints.list(),
            (std::vector<CheckpointFolder::Entry>{{5, checkpoints.path_of(5)}, {4, checkpoints.path_of(4)}}));
  for (const char* const unfinished : {"step-00000005.tmp", "step-00000004.section-1.tmp.tmp", "step-.tmp"})
    EXPECT_FALSE(fs::exists(folder / unfinished)) << unfinished;
  EXPECT_TRUE(fs::exists(folder / "step-00000006.section-3.tmp.tmp")) << "another rank may be writing it";
  EXPECT_TRUE(fs::exists(folder / "mine/manifest.json"));
  checkpoints.keep(1, 4);  // 5 is newer than the run's step 4, so it does not count
  EXPECT_EQ(checkpoints.list(),
            (std::vector<CheckpointFolder::Entry>{{5, checkpoints.path_of(5)}, {4, checkpoints.path_of(4)}}));
  checkpoints.clear();
  EXPECT_TRUE(checkpoints.list().empty());
  EXPECT_FALSE(fs::exists(folder / "step-00000006.section-3.tmp.tmp"));
}

TEST(CheckpointFolder, SparesTheBest) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  for (std::int64_t step = 1; step <= 5; ++step) make(checkpoints.path_of(step));
  const auto steps = [&] {
    std::vector<std::int64_t> found;
    for (const auto& entry : checkpoints.list()) found.push_back(entry.step);
    return found;
  };
  checkpoints.keep(2, 5, /*spared=*/2);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{5, 4, 2})) << "in addition to the newest two";
  checkpoints.keep(2, 5, /*spared=*/5);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{5, 4})) << "5 is one of the newest two";
}

}  // namespace
}  // namespace zero
