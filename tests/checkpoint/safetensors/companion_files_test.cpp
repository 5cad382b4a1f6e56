#include "zero/checkpoint/safetensors/companion_files.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/files/file.h"

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

TEST(CompanionFiles, ATokenizerReplacesAnother) {
  const TemporaryFolder from, to;
  from.write("vocab.json", "{}");
  from.write("merges.txt", "a b");
  from.write("notes.txt", "mine");
  to.write("tokenizer.json", "old");
  to.write("vocab.json", "old");
  to.write("generation_config.json", "kept");
  EXPECT_EQ(copy_tokenizer_files(from.path(), to.path()),
            (std::vector<fs::path>{to / "vocab.json", to / "merges.txt"}));
  EXPECT_FALSE(fs::exists(to / "tokenizer.json")) << "it would take precedence over the new files";
  EXPECT_EQ(read_file(to / "vocab.json"), "{}");
  EXPECT_EQ(read_file(to / "generation_config.json"), "kept");
  EXPECT_FALSE(fs::exists(to / "notes.txt"));
}

TEST(CompanionFiles, NothingIsCopiedWithoutASource) {
  const TemporaryFolder empty, to;
  to.write("vocab.txt", "kept");
  EXPECT_TRUE(copy_tokenizer_files(empty.path(), to.path()).empty());
  EXPECT_TRUE(copy_tokenizer_files("", to.path()).empty());
  EXPECT_TRUE(copy_tokenizer_files(to.path(), to.path()).empty()) << "one folder";
  EXPECT_TRUE(copy_companion(kGenerationConfig, empty.path(), to.path()).empty());
  EXPECT_EQ(read_file(to / "vocab.txt"), "kept");
}

TEST(CompanionFiles, NamesOfClassesReadBack) {
  const std::vector<std::string> names{"no \"way\"", "yes"};
  EXPECT_EQ(names_in_classes_json(classes_json(names)), names);
  EXPECT_TRUE(names_in_classes_json("no JSON").empty());
  EXPECT_TRUE(names_in_classes_json(R"({"id2label": {"1": "a"}})").empty());
}

}  // namespace
}  // namespace zero
