#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "app/config/load.h"
#include "app/config/rules/rules.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

class Files : public testing::Test {
 protected:
  Files() {
    loaded_.config.data.path = scratch_.write("input.txt", "text").string();
    loaded_.config.run.dir = (scratch_ / "runs/a/b").string();
  }
  std::string problem() const {
    return message_of<ConfigError>([&] { check_files(loaded_); });
  }
  TemporaryFolder scratch_;
  LoadedConfig loaded_;
};

// Existing files pass the check.
TEST_F(Files, CheckingCreatesNothing) {
  EXPECT_NO_THROW(check_files(loaded_));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "runs"));
}

TEST_F(Files, DataMustBeNamed) {
  loaded_.config.data.path = "";
  EXPECT_NE(problem().find("--data.path FILE"), std::string::npos);
}

TEST_F(Files, MissingOneNamesTheFolder) {
  loaded_.config.data.path = "nowhere.txt";
  loaded_.origins["data.path"] = "c.toml:9";
  const std::string message = problem();
  EXPECT_TRUE(message.starts_with("c.toml:9: data.path = \"nowhere.txt\": no such file (looked in ")) << message;
}

TEST_F(Files, AMissingFolderIsCalledOne) {
  loaded_.config.data.path = "none";
  loaded_.config.data.kind = DataKind::kImages;
  EXPECT_TRUE(says(problem(), "data.path = \"none\": no such folder (looked in ")) << problem();
  loaded_.config.data.kind = DataKind::kMnist;
  EXPECT_TRUE(says(problem(), "data.path = \"none\": no such file or folder")) << problem();
  loaded_.config.data.kind = DataKind::kText;
  loaded_.config.data.path = scratch_.write("good.txt", "12").string();
  loaded_.config.model.init = "none";
  EXPECT_TRUE(says(problem(), "model.init = \"none\": no such file or folder")) << problem();
  loaded_.config.model.init = "";
  loaded_.config.data.tokenizer = "none";
  EXPECT_TRUE(says(problem(), "data.tokenizer = \"none\": no such folder")) << problem();
}

TEST_F(Files, NamesTheBadOneOfSeveral) {
  const std::string good = scratch_.write("good.bin", "12").string();
  loaded_.config.data.kind = DataKind::kTokens;
  loaded_.config.data.path = DataFiles({good, scratch_.write("empty.bin", "").string()});
  EXPECT_TRUE(says(problem(), "empty.bin\": an empty file")) << problem();
  loaded_.config.data.path = DataFiles({good, "none.bin"});
  EXPECT_TRUE(says(problem(), "\"none.bin\": no such file")) << problem();
  loaded_.config.data.path = DataFiles({good, "none_*.bin"});
  EXPECT_TRUE(says(problem(), "no file matches this pattern")) << problem();
  loaded_.config.data.kind = DataKind::kCsv;
  loaded_.config.data.path = DataFiles({good, good});
  EXPECT_TRUE(says(problem(), "2 files are given, and data.kind = \"csv\" reads only one file")) << problem();
}

TEST_F(Files, EmptyDataIsRefused) {
  loaded_.config.data.path = scratch_.write("empty.txt", "").string();
  EXPECT_NE(problem().find("an empty file"), std::string::npos);
}

TEST_F(Files, ChecksValidationAndInit) {
  loaded_.config.data.validation = DataFiles("no.bin");
  EXPECT_TRUE(problem().starts_with("data.validation")) << problem();
  loaded_.config.data.validation = 0.0;
  loaded_.config.model.init = "no.safetensors";
  EXPECT_TRUE(problem().starts_with("model.init")) << problem();
}

TEST_F(Files, RefusesAFileAsRunFolder) {
  loaded_.config.run.dir = loaded_.config.data.path.text();
  EXPECT_NE(problem().find("not a folder"), std::string::npos);
  loaded_.config.run.dir = loaded_.config.data.path.text() + "/below";
  EXPECT_NE(problem().find("not a folder"), std::string::npos);
}

TEST_F(Files, AnUnwritableRunFolderIsRefused) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  loaded_.config.run.dir = "/proc/nowhere";
  EXPECT_NE(problem(), "");
}

}  // namespace
}  // namespace zero
