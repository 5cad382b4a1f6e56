#include "app/cli/export_companions.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

// An export of `run` that has vocab.txt, if the run has it, and no words.txt.
std::vector<fs::path> export_once(const TemporaryFolder& run, const TemporaryFolder& to) {
  ExportCompanions companions(to.path());
  companions.copy("vocab.txt", run.path());
  companions.remove("words.txt");
  companions.require_free();
  return companions.write();
}

TEST(ExportCompanions, OwnFilesAreReplacedAndRemoved) {
  const TemporaryFolder run, to;
  run.write("vocab.txt", "one");
  EXPECT_EQ(export_once(run, to), std::vector<fs::path>{to / "vocab.txt"});
  run.write("vocab.txt", "two");
  EXPECT_EQ(export_once(run, to), std::vector<fs::path>{to / "vocab.txt"});
  EXPECT_EQ(read_file(to / "vocab.txt"), "two");

  ExportCompanions without(to.path());
  without.remove("vocab.txt");
  without.require_free();
  EXPECT_TRUE(without.write().empty());
  EXPECT_EQ(to.num_files(), 0U) << "the record is removed with the last file";
}

TEST(ExportCompanions, UsersFilesAreRefused) {
  const TemporaryFolder run, to;
  run.write("vocab.txt", "one");
  to.write("vocab.txt", "mine");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { export_once(run, to); }),
                   "vocab.txt: no export wrote this file, and it would be replaced"));
  fs::remove(to / "vocab.txt");
  to.write("words.txt", "mine");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { export_once(run, to); }),
                   "words.txt: no export wrote this file, and it would be removed"));
  EXPECT_EQ(to.num_files(), 1U) << "nothing is written";
  EXPECT_EQ(read_file(to / "words.txt"), "mine");
}

// The user has edited an exported file.
TEST(ExportCompanions, EditedFilesAreRefused) {
  const TemporaryFolder run, to;
  run.write("vocab.txt", "one");
  export_once(run, to);
  to.write("vocab.txt", "edited");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { export_once(run, to); }), "it would be replaced"));
  EXPECT_EQ(read_file(to / "vocab.txt"), "edited");
}

// As in the folder of the run's first weights.
TEST(ExportCompanions, EqualFilesAreNoObstacle) {
  const TemporaryFolder run, to;
  run.write("vocab.txt", "one");
  to.write("vocab.txt", "one");
  EXPECT_EQ(export_once(run, to).size(), 1U);
  EXPECT_TRUE(export_once(to, to).empty()) << "one folder";
  EXPECT_EQ(read_file(to / "vocab.txt"), "one");
}

}  // namespace
}  // namespace zero::cli
