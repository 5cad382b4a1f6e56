#include "zero/checkpoint/no_run.h"

#include <gtest/gtest.h>

#include "tests/support/expect_says.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

TEST(NoRun, NamesMissingRunsAndForeignFolders) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "run");
  folder.write("run/config.toml", "");
  fs::create_directories(folder / "own/checkpoints/step-00000003");
  EXPECT_FALSE(why_no_run(folder / "run"));
  EXPECT_FALSE(why_no_run(folder / "own"));
}

TEST(NoRun, NamesAUsablePath) {
  const TemporaryFolder folder;
  const auto said = [&](const char* name, std::string_view reason, const std::string& remedy) {
    const auto found = why_no_run(folder / name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->reason, reason) << name;
    EXPECT_TRUE(says(found->remedy, remedy)) << found->remedy;
  };
  folder.write("file", "x");
  fs::create_directories(folder / "empty");
  fs::create_directories(folder / "runs/b/checkpoints/step-00000005");
  fs::create_directories(folder / "runs/b/checkpoints/step-00000010");
  fs::create_directories(folder / "runs/a");
  for (const char* exported : {"one", "several"}) fs::create_directories(folder / exported);
  folder.write("one/model.safetensors", "");
  folder.write("several/model.safetensors.index.json", "");
  said("none", "no such folder", "name the [run] dir of a `zero train`");
  said("file", "it is a file; the folder of a run is needed", "name the [run] dir of a `zero train`");
  said("runs/b/checkpoints/", "a folder of checkpoints, not a run",
       "the run's folder, " + (folder / "runs/b").string() + ", or one");
  folder.write("runs/b/metrics.jsonl", "");
  said("runs/b/metrics.jsonl", "it is a file; the folder of a run is needed",
       "name its folder, " + (folder / "runs/b").string());
  said("empty", "a folder without config.toml: not a run", "name the [run] dir of a `zero train`");
  said("runs", "a folder of runs, not a run", "such as " + (folder / "runs/b").string());
  said("runs/b/checkpoints", "a folder of checkpoints, not a run",
       "such as " + (folder / "runs/b/checkpoints/step-00000010").string());
  for (const char* exported : {"one", "several"})
    said(exported, "only weights, as `zero export` writes them: not a run",
         "--model.init " + (folder / exported).string());
}

}  // namespace
}  // namespace zero
