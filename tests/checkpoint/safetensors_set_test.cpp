#include "zero/checkpoint/safetensors_set.h"

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/safetensors/safetensors_writer.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

const std::string kBothShards = R"({"metadata": {"total_size": 12}, "weight_map": {"a": "1.safetensors", )"
                                R"("b": "1.safetensors", "c": "2.safetensors"}})";

class SafetensorsSetTest : public testing::Test {
 protected:
  SafetensorsSetTest() {
    shard("1.safetensors", {{"a", 1}, {"b", 2}});
    shard("2.safetensors", {{"c", 3}});
  }

  // A file of scalars.
  void shard(std::string_view name, const std::vector<std::pair<std::string, float>>& tensors) const {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [tensor, value] : tensors) entries.push_back({.name = tensor, .dtype = ElementType::kF32});
    SafetensorsWriter writer(folder_ / name, entries);
    for (const auto& [tensor, value] : tensors) writer.write(tensor, 0, std::as_bytes(std::span(&value, 1)));
    writer.commit();
  }
  SafetensorsSet opened(const std::string& index) const {
    return SafetensorsSet::open(folder_.write("m.index.json", index), "model.init");
  }
  // The refusal of an index, under the key that named it.
  std::string refusal(const std::string& index) const {
    const auto message = message_of<ConfigError>([&] { opened(index); });
    EXPECT_TRUE(message.starts_with("model.init = " + (folder_ / "m.index.json").string() + ": ")) << message;
    return message;
  }
  static float value_of(const SafetensorsSet& set, std::string_view name) {
    const SafetensorsSet::Tensor* const tensor = set.find(name);
    if (tensor == nullptr) return -1;
    float value = 0;
    tensor->file->read(*tensor->entry, 0, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  TemporaryFolder folder_;
};

TEST_F(SafetensorsSetTest, AnIndexPutsItsFilesTogether) {
  auto first = opened(kBothShards);
  const SafetensorsSet set = std::move(first);
  EXPECT_EQ(set.tensors().size(), 3u);
  EXPECT_EQ(value_of(set, "a"), 1);
  EXPECT_EQ(value_of(set, "b"), 2);
  EXPECT_EQ(value_of(set, "c"), 3);
  EXPECT_EQ(set.find("d"), nullptr);
}

TEST_F(SafetensorsSetTest, OneFileIsASet) {
  EXPECT_EQ(value_of(SafetensorsSet::open(folder_ / "2.safetensors", "model.init"), "c"), 3);
}

TEST_F(SafetensorsSetTest, FolderMeansModelOrIndex) {
  const auto open = [&] { return SafetensorsSet::open(folder_.path(), "model.init"); };
  EXPECT_TRUE(says(message_of<ConfigError>(open), "holds neither model.safetensors nor model.safetensors.index.json"));
  std::filesystem::create_directories(folder_ / "checkpoints/step-00000004");
  EXPECT_TRUE(says(message_of<ConfigError>(open), fmt::format("`zero export {} -o DIR`", folder_.path().string())));
  folder_.write("model.safetensors.index.json", kBothShards);
  EXPECT_EQ(value_of(open(), "a"), 1);
  shard("model.safetensors", {{"a", 7}});
  EXPECT_TRUE(says(message_of<ConfigError>(open), "holds both model.safetensors and model.safetensors.index.json"));
  fs::remove(folder_ / "model.safetensors.index.json");
  EXPECT_EQ(value_of(open(), "a"), 7);
}

TEST_F(SafetensorsSetTest, NamesStayInTheFolder) {
  fs::create_directory(folder_ / "inner");
  fs::rename(folder_ / "2.safetensors", folder_ / "inner/2.safetensors");
  for (const std::string name : {"../1.safetensors", "inner/2.safetensors", "/etc/passwd", "..", ".", ""}) {
    const auto message = refusal(R"({"weight_map": {"c": ")" + name + "\"}}");
    EXPECT_TRUE(says(message, "\"" + name + "\" is not the name of a file in its own folder"));
  }
  fs::create_symlink(folder_ / "inner/2.safetensors", folder_ / "2.safetensors");
  EXPECT_TRUE(says(refusal(kBothShards), "2.safetensors: open: is a link"));
}

TEST_F(SafetensorsSetTest, MissingFileIsNamed) {
  fs::remove(folder_ / "2.safetensors");
  EXPECT_TRUE(says(refusal(kBothShards), (folder_ / "2.safetensors").string() + ": open: No such file"));
  EXPECT_TRUE(says(message_of<ConfigError>([&] { SafetensorsSet::open(folder_ / "x.index.json", "model.init"); }),
                   "no such file"));
}

TEST_F(SafetensorsSetTest, MisplacedTensorIsNamed) {
  EXPECT_TRUE(says(refusal(R"({"weight_map": {"a": "1.safetensors", "b": "1.safetensors", "d": "2.safetensors"}})"),
                   "names 2.safetensors for d, which is not in that file"));
}

TEST_F(SafetensorsSetTest, OmittedTensorIsNamed) {
  EXPECT_TRUE(
      says(refusal(R"({"weight_map": {"a": "1.safetensors"}})"), "1.safetensors holds b, which it does not name"));
}

TEST_F(SafetensorsSetTest, TensorInTwoFilesIsNamed) {
  shard("2.safetensors", {{"a", 9}, {"c", 3}});
  EXPECT_TRUE(says(refusal(kBothShards), "a is in 1.safetensors and in 2.safetensors"));
}

TEST_F(SafetensorsSetTest, BadIndexIsRefusedByKey) {
  EXPECT_TRUE(says(refusal("weights"), "is not JSON"));
  EXPECT_TRUE(says(refusal(R"({"weight_map": {"a": 1}})"), R"(the file of "a" is not a text)"));
  EXPECT_TRUE(says(refusal(std::string((64 << 20) + 1, ' ')), "at most 67108864 are allowed"));
}

TEST_F(SafetensorsSetTest, TooManyFilesAreRefusedUnopened) {
  std::string map;
  for (int i = 0; i < 1001; ++i)
    map += (i == 0 ? "" : ", ") + ("\"t" + std::to_string(i) + "\": \"f" + std::to_string(i) + "\"");
  EXPECT_TRUE(says(refusal("{\"weight_map\": {" + map + "}}"), "names 1001 files; 1000 are allowed"));
}

TEST_F(SafetensorsSetTest, DamagedFileIsNamed) {
  folder_.write("2.safetensors", "not a model");
  EXPECT_TRUE(message_of<ConfigError>([&] { opened(kBothShards); }).starts_with((folder_ / "2.safetensors").string()));
}

}  // namespace
}  // namespace zero
