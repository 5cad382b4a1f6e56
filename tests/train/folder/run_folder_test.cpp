#include "app/train/folder/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "app/report/files/event_file.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

TEST(RunFolder, IsMadeWithItsParents) {
  const TemporaryFolder temporary;
  const RunFolder folder(temporary / "runs/first");
  folder.require_free(false);
  folder.create();
  EXPECT_TRUE(fs::is_directory(folder.path()));
}

// An existing folder keeps its mode.
TEST(RunFolder, NewFolderIsPrivate) {
  const TemporaryFolder temporary;
  RunFolder(temporary / "runs/new").create();
  EXPECT_EQ(fs::status(temporary / "runs/new").permissions(), fs::perms::owner_all);
  RunFolder(temporary / "runs/slash/").create();
  EXPECT_EQ(fs::status(temporary / "runs/slash").permissions(), fs::perms::owner_all);
  fs::create_directory(temporary / "old");
  fs::permissions(temporary / "old", fs::perms(0755));
  RunFolder(temporary / "old").create();
  EXPECT_EQ(fs::status(temporary / "old").permissions(), fs::perms(0755));
}

TEST(RunFolder, LookingMakesNothing) {
  const TemporaryFolder temporary;
  RunFolder(temporary / "run").require_free(false);
  EXPECT_EQ(temporary.num_files(), 0U);
}

TEST(RunFolder, TriesWritingWithoutLeavingTrace) {
  const TemporaryFolder temporary;
  EXPECT_NO_THROW(RunFolder(temporary / "runs/deep/run").require_writable());
  EXPECT_NO_THROW(RunFolder(temporary.path()).require_writable());
  EXPECT_NO_THROW(RunFolder("no-such-folder/run").require_writable()) << "below the current folder";
  EXPECT_EQ(temporary.num_files(), 0U);
  temporary.write("file", "");
  for (const fs::path& path : {temporary / "file", temporary / "file/run", fs::path("/proc/zero/run")}) {
    const auto message = message_of<ConfigError>([&] { RunFolder(path).require_writable(); });
    EXPECT_TRUE(says(message, "run.dir = " + path.string() + ": cannot be written: ")) << message;
    EXPECT_TRUE(says(message, "--run.dir"));
  }
}

TEST(RunFolder, RefusesFolderWithRun) {
  for (const char* file : {"report.json", "metrics.jsonl", "config.toml"}) {
    const TemporaryFolder temporary;
    temporary.write(file, "{}");
    const RunFolder folder(temporary.path());
    EXPECT_TRUE(folder.holds_run()) << file;
    const auto message = message_of<ConfigError>([&] { folder.require_free(false); });
    EXPECT_TRUE(says(message, "run.dir"));
    EXPECT_TRUE(says(message, "--overwrite"));
    EXPECT_NO_THROW(folder.require_free(true));
  }
}

TEST(RunFolder, OverwritingRemovesOnlyTheRun) {
  const TemporaryFolder temporary;
  for (const char* file :
       {"report.json", "metrics.jsonl", "config.toml", "plan.txt", "model.safetensors", "notes.txt"}) {
    temporary.write(file, "old");
  }
  const RunFolder folder(temporary.path());
  folder.create();
  EXPECT_FALSE(folder.holds_run());
  EXPECT_FALSE(fs::exists(folder.files().model));
  EXPECT_FALSE(fs::exists(folder.files().plan));
  EXPECT_TRUE(fs::exists(temporary / "notes.txt"));
}

TEST(RunFolder, BeginningAgainRemovesOldEvents) {
  const TemporaryFolder temporary;
  const RunFolder folder(temporary / "run");
  folder.create();
  { const EventFile events(folder.files().tensorboard, 100); }
  folder.reopen(5, {});
  EXPECT_TRUE(std::filesystem::exists(folder.files().tensorboard)) << "a run that continues keeps them";
  folder.create();
  EXPECT_FALSE(std::filesystem::exists(folder.files().tensorboard));
}

// A run of the same configuration without results was cut short.
TEST(RunFolder, SameConfigurationWithoutResultsIsUnfinished) {
  const TemporaryFolder temporary;
  const RunFolder folder(temporary.path());
  EXPECT_FALSE(folder.was_cut_short("lr = 1\n")) << "no run began here";
  EXPECT_FALSE(folder.was_cut_short("")) << "nor one with an empty configuration";
  temporary.write("metrics.jsonl", "{}\n");
  EXPECT_FALSE(folder.was_cut_short("lr = 1\n")) << "it is unknown whose run this is";
  temporary.write("config.toml", "lr = 1\n");
  EXPECT_TRUE(folder.was_cut_short("lr = 1\n"));
  EXPECT_FALSE(folder.was_cut_short("lr = 2\n"));
  EXPECT_FALSE(folder.was_cut_short("lr = 1"));
  for (const fs::path& kept : {folder.files().report, folder.files().model, folder.files().checkpoints.path_of(4)}) {
    fs::create_directories(kept);
    EXPECT_FALSE(folder.was_cut_short("lr = 1\n")) << kept;
    fs::remove(kept);
    EXPECT_TRUE(folder.was_cut_short("lr = 1\n")) << kept;
  }
}

TEST(RunFolder, HalfASaveIsNoCheckpoint) {
  const TemporaryFolder temporary;
  const RunFolder folder(temporary.path());
  temporary.write("config.toml", "lr = 1\n");
  fs::path unfinished = folder.files().checkpoints.path_of(4);
  fs::create_directories(unfinished += ".tmp");
  EXPECT_TRUE(folder.was_cut_short("lr = 1\n"));
}

TEST(RunFolder, RefusesFileInItsPlace) {
  const TemporaryFolder temporary;
  const auto path = temporary.write("run", "a file");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { RunFolder(path).create(); }), "run.dir"));
}

TEST(RunFolder, RefusesUnwritableFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const TemporaryFolder temporary;
  fs::permissions(temporary.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const RunFolder folder(temporary / "run");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { folder.create(); }), "cannot be written"));
  fs::permissions(temporary.path(), fs::perms::owner_all);
}

TEST(RunFolder, AFinishedRunHasItsWeights) {
  const TemporaryFolder temporary;
  const RunFolder folder(temporary.path());
  EXPECT_TRUE(says(message_of<ConfigError>([&] { folder.require_finished(); }), "not a run folder"));
  temporary.write("config.toml", "");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { folder.require_finished(); }), "has not finished"));
  temporary.write("model.safetensors", "");
  EXPECT_NO_THROW(folder.require_finished());
}

}  // namespace
}  // namespace zero
