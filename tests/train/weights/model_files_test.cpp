#include "app/train/weights/model_files.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/safetensors/companion_files.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

// "caf\xe9" is Latin-1, for which classes.json has a replacement character.
TEST(ModelFiles, ClassNamesNeedNotBeUtf8) {
  const TemporaryFolder folder;
  const std::vector<std::string> names{"caf\xe9", "tea"};
  folder.write("classes.json", classes_json(names));
  EXPECT_NO_THROW(require_classes_of_run(folder.path(), names));
  const std::vector<std::string> others{"tea", "caf\xe9"};
  EXPECT_TRUE(says(message_of<ConfigError>([&] { require_classes_of_run(folder.path(), others); }),
                   "the run began with the classes caf"));
}

// A tokenizer and a config.json of another model, beside new weights, would be read with these.
TEST(ModelFiles, AnotherRunReplacesAllOfThem) {
  const TemporaryFolder folder;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
                           "generation_config.json", "classes.json", "words.txt"})
    folder.write(name, "{}");
  folder.write("config.json", R"({"model_type": "bert"})");
  folder.write("notes.txt", "mine");
  remove_model_files({}, folder.path());
  EXPECT_EQ(folder.num_files(), 1U);
  EXPECT_TRUE(std::filesystem::exists(folder / "notes.txt"));
  folder.write("config.json", R"({"mine": 1})");
  remove_model_files({}, folder.path());
  EXPECT_TRUE(std::filesystem::exists(folder / "config.json")) << "it describes no model";
}

// A new run in a folder that held none, such as --run.dir "."
TEST(ModelFiles, FilesOfTheUserStay) {
  const TemporaryFolder folder;
  for (const char* name : {"classes.json", "words.txt"}) folder.write(name, "mine");
  const auto task = real_task(some_mlp({4, 3}), kImageShape);
  write_model_files({}, *task, {}, folder.path(), ModelFiles::kNew);
  for (const char* name : {"classes.json", "words.txt"}) EXPECT_EQ(read_file(folder / name), "mine") << name;
}

TEST(ModelFiles, SourcesOfTheNextRunStay) {
  const TemporaryFolder folder;
  TrainJob job;
  const auto begin = [&] {
    folder.write("tokenizer.json", "{}");
    folder.write("config.json", R"({"model_type": "gpt2"})");
    remove_model_files(job, folder.path());
  };
  job.data.tokenizer = folder.path();
  begin();
  EXPECT_TRUE(std::filesystem::exists(folder / "tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "config.json"));
  job.data.tokenizer.clear();
  job.model.init = folder / "model.safetensors";
  begin();
  EXPECT_TRUE(std::filesystem::exists(folder / "tokenizer.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "config.json"));
}

}  // namespace
}  // namespace zero
