#include "zero/base/files/data_files.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

TEST(DataFiles, PatternSortsFilesByBytes) {
  const TemporaryFolder folder;
  for (const char* name : {"t_10.bin", "t_2.bin", "t_1.bin", "T_3.bin", "t_1.txt"}) folder.write(name, "x");
  const auto at = [&](const char* name) { return (folder / name).string(); };
  const DataFiles found = with_patterns_expanded({{at("last.bin"), at("t_*.bin")}}, "data.path");
  EXPECT_EQ(found.paths, (std::vector{at("last.bin"), at("t_1.bin"), at("t_10.bin"), at("t_2.bin")}));
  EXPECT_EQ(found.text(), at("last.bin") + " and 3 more");
}

TEST(DataFiles, PatternLikeNameIsAFile) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a[1].bin", "x").string();
  folder.write("a1.bin", "x");
  EXPECT_FALSE(is_open_pattern(path));
  EXPECT_EQ(with_patterns_expanded(path, "data.path"), DataFiles(path));
}

TEST(DataFiles, APatternThatNothingMatchesStays) {
  const TemporaryFolder folder;
  const std::string pattern = (folder / "none_*.bin").string();
  EXPECT_EQ(with_patterns_expanded(pattern, "data.path"), DataFiles(pattern));
  EXPECT_TRUE(is_open_pattern(pattern));
  EXPECT_TRUE(with_patterns_expanded("", "data.path").empty());
}

TEST(DataFiles, NonUtf8MatchIsRefused) {
  const TemporaryFolder folder;
  folder.write("caf\xe9.txt", "x");
  const std::string pattern = (folder / "c*.txt").string();
  const std::string message =
      message_of<ConfigError>([&] { return with_patterns_expanded(pattern, "data.validation"); });
  EXPECT_TRUE(message.starts_with("data.validation = ")) << message;
  EXPECT_NE(message.find("name is not UTF-8"), std::string::npos) << message;
  folder.write("caf\xc3\xa9.bin", "x");
  EXPECT_EQ(with_patterns_expanded((folder / "c*.bin").string(), "data.path").paths.size(), 1U);
}

}  // namespace
}  // namespace zero
