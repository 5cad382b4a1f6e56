#include "zero/checkpoint/export_weights.h"

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/files/file.h"
#include "zero/checkpoint/safetensors/safetensors_file.h"

#include "tests/checkpoint/saved_model.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_in(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.size_bytes()));
  file.read(entry, 0, bytes);
  return bytes;
}

class ExportWeights : public testing::Test {
 protected:
  void SetUp() override {
    on_ranks(3, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(DType::kBFloat16), options_of({.world = 3, .dtype = DType::kBFloat16}));
      train_steps(model, 0, 2, 1);
      save_now(model.engine(), folder_ / "c");
      const auto weights = model.weights_of("h.1.weight");
      if (comm.rank() == 0) weights_ = weights;
    });
  }
  TemporaryFolder folder_;
  std::vector<float> weights_;
};

TEST_F(ExportWeights, OneFileHasFullPrecision) {
  CheckpointReader reader(folder_ / "c");
  EXPECT_EQ(export_weights(reader, folder_ / "m.safetensors").files.size(), 1u);
  const auto file = SafetensorsFile::open(folder_ / "m.safetensors");
  EXPECT_EQ(file.entries().size(), small_specs().size());
  const auto& entry = file.at("h.1.weight");
  EXPECT_EQ(entry.dtype, ElementType::kF32);
  EXPECT_EQ(entry.shape, (std::vector<std::int64_t>{7, 6}));
  EXPECT_EQ(std::memcmp(bytes_in(file, entry).data(), weights_.data(), weights_.size() * 4), 0);
  EXPECT_EQ(file.at("h.1.table").dtype, ElementType::kBF16);  // frozen, so its type is unchanged
}

TEST_F(ExportWeights, Bf16IsRoundedFromFullPrecision) {
  CheckpointReader reader(folder_ / "c");
  export_weights(reader, folder_ / "m.safetensors", {.dtype = DType::kBFloat16});
  const auto file = SafetensorsFile::open(folder_ / "m.safetensors");
  const auto bytes = bytes_in(file, file.at("h.1.weight"));
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    BFloat16Bits bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    EXPECT_EQ(bits, to_bfloat16(weights_[i]));
  }
}

TEST_F(ExportWeights, LargeExportHasAnIndex) {
  CheckpointReader reader(folder_ / "c");
  const auto files = export_weights(reader, folder_ / "m.safetensors", {.shard_bytes = 400}).files;
  ASSERT_GT(files.size(), 3u);
  EXPECT_EQ(files.back().filename(), "m.safetensors.index.json");
  const auto index = nlohmann::json::parse(read_file(files.back()));
  EXPECT_EQ(index["weight_map"].size(), small_specs().size());
  for (const auto& [name, file] : index["weight_map"].items())
    EXPECT_NE(SafetensorsFile::open(folder_ / file.get<std::string>()).find(name), nullptr);
}

// Other programs prefer the one file. Files of other names stay.
TEST_F(ExportWeights, OtherFormIsRemoved) {
  CheckpointReader reader(folder_ / "c");
  const fs::path file = folder_ / "m.safetensors", index = folder_ / "m.safetensors.index.json";
  folder_.write("m-2.safetensors", "mine");
  export_weights(reader, file);
  const auto many = export_weights(reader, file, {.shard_bytes = 400}).files;
  EXPECT_FALSE(fs::exists(file));
  const auto fewer = export_weights(reader, file, {.shard_bytes = 800}).files;
  ASSERT_NE(many.size(), fewer.size());
  ASSERT_GT(fewer.size(), 2U);
  EXPECT_FALSE(fs::exists(many.front()));
  EXPECT_TRUE(fs::exists(fewer.front()));
  export_weights(reader, file);
  EXPECT_TRUE(fs::exists(file));
  EXPECT_FALSE(fs::exists(index));
  for (const fs::path& shard : fewer) EXPECT_FALSE(fs::exists(shard)) << shard;
  EXPECT_EQ(read_file(folder_ / "m-2.safetensors"), "mine");
}

// An index of another program may name any file.
TEST_F(ExportWeights, ForeignIndexRemovesNoFile) {
  CheckpointReader reader(folder_ / "c");
  folder_.write("notes.txt", "mine");
  folder_.write("m-00001-of-00002.safetensors", "a shard");
  folder_.write("m.safetensors.index.json",
                R"({"weight_map": {"a": "notes.txt", "b": "../m-00001-of-00002.safetensors", "c": 3}})");
  export_weights(reader, folder_ / "m.safetensors");
  EXPECT_EQ(read_file(folder_ / "notes.txt"), "mine");
  EXPECT_EQ(read_file(folder_ / "m-00001-of-00002.safetensors"), "a shard");
  EXPECT_FALSE(fs::exists(folder_ / "m.safetensors.index.json")) << "it names no weights of this export";
}

}  // namespace
}  // namespace zero
