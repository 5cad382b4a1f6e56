#include "zero/checkpoint/safetensors/safetensors_writer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/safetensors/safetensors_file.h"

#include "tests/support/command_end.h"
#include "tests/support/message_of.h"
#include "tests/support/python_with.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<std::byte> bytes_in(const SafetensorsFile& file, std::string_view name) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.at(name).size_bytes()));
  file.read(file.at(name), 0, bytes);
  return bytes;
}

TEST(SafetensorsWriter, WhatIsWrittenIsReadBack) {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  const std::vector<float> w = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint16_t> b = {7, 8};
  SafetensorsWriter writer(path, {{"b", ElementType::kBF16, {2}}, {"w", ElementType::kF32, {2, 3}}});
  writer.write("b", 0, bytes_of(b));
  writer.write("w", 0, bytes_of(w));
  writer.commit();

  const auto file = SafetensorsFile::open(path);
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}}));
  EXPECT_EQ(file.entries()[0].name, "w");
  EXPECT_EQ(file.at("w").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(bytes_in(file, "w").data(), w.data(), 24), 0);
  EXPECT_EQ(std::memcmp(bytes_in(file, "b").data(), b.data(), 4), 0);
  EXPECT_EQ((std::filesystem::file_size(path) - 28) % 8, 0u) << "begin of the byte buffer";
}

// In the order of a trainer: shard after shard, unit after unit.
TEST(SafetensorsWriter, PiecesComeInAnyOrder) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::uint8_t> values(1 + random() % 2000);
    std::iota(values.begin(), values.end(), std::uint8_t{0});
    std::vector<std::size_t> cuts = {0, values.size()};
    for (int i = 0; i < round; ++i) cuts.push_back(random() % values.size());
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::size_t> pieces(cuts.size() - 1);
    std::iota(pieces.begin(), pieces.end(), std::size_t{0});
    std::shuffle(pieces.begin(), pieces.end(), random);

    const auto size = static_cast<std::int64_t>(values.size());
    SafetensorsWriter writer(folder / "file", {{"x", ElementType::kU8, {size}}, {"e", ElementType::kF32, {0}}});
    for (const std::size_t i : pieces)
      writer.write("x", static_cast<std::int64_t>(cuts[i]), bytes_of(values).subspan(cuts[i], cuts[i + 1] - cuts[i]));
    writer.commit();
    const auto file = SafetensorsFile::open(folder / "file");
    EXPECT_EQ(std::memcmp(bytes_in(file, "x").data(), values.data(), values.size()), 0);
  }
}

TEST(SafetensorsWriter, NothingShowsBeforeCommit) {
  const TemporaryFolder folder;
  {
    SafetensorsWriter writer(folder / "model", {{"w", ElementType::kU8, {1}}});
    EXPECT_FALSE(std::filesystem::exists(folder / "model"));
  }
  EXPECT_EQ(folder.num_files(), 0u);
}

TEST(SafetensorsWriter, AMissingByteIsOurBug) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "model", {{"w", ElementType::kF32, {4}}, {"e", ElementType::kF32, {0}}});
  const std::vector<float> three = {1, 2, 3};
  writer.write("w", 0, bytes_of(three));
  EXPECT_TRUE(says(message_of<InternalError>([&] { writer.commit(); }), "tensor 'w': 12 of 16 bytes were written"));
  EXPECT_FALSE(std::filesystem::exists(folder / "model"));
}

TEST(SafetensorsWriter, NoPieceLeavesItsTensor) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "model", {{"w", ElementType::kF32, {1}}});
  const std::vector<std::uint8_t> bytes(5);
  EXPECT_THROW(writer.write("w", 0, bytes_of(bytes)), InternalError);
  EXPECT_THROW(writer.write("w", 5, {}), InternalError);
  EXPECT_THROW(writer.write("w", -1, {}), InternalError);
  EXPECT_THROW(writer.write("v", 0, {}), InternalError);
}

TEST(SafetensorsWriter, RefusesUnstorableNamesBeforeWriting) {
  const TemporaryFolder folder;
  EXPECT_THROW(SafetensorsWriter(folder / "m", {{"w", ElementType::kU8, {1}}, {"w", ElementType::kU8, {1}}}),
               ConfigError);
  EXPECT_EQ(folder.num_files(), 0u);
}

TEST(SafetensorsWriter, MissingFolderIsAnIoError) {
  EXPECT_THROW(SafetensorsWriter("/no/such/folder/model", {}), IoError);
}

TEST(SafetensorsWriter, PythonReadsTheFile) {
  const auto python = python_with("safetensors, numpy");
  if (!python) GTEST_SKIP() << no_python_with("safetensors, numpy");
  const TemporaryFolder folder;
  const std::vector<float> w = {0.5f, -1, 2};
  const std::vector<std::int64_t> i = {-3};
  SafetensorsWriter writer(
      folder / "model",
      {{"h.0.w", ElementType::kF32, {3, 1}}, {"i \"\\é", ElementType::kI64, {}}, {"e", ElementType::kF16, {2, 0}}});
  writer.write("h.0.w", 0, bytes_of(w));
  writer.write("i \"\\é", 0, bytes_of(i));
  writer.commit();
  folder.write("check.py", R"(
import sys
from safetensors import safe_open
with safe_open(sys.argv[1], "np") as f:
    assert f.metadata() == {"format": "pt"}, f.metadata()
    assert set(f.keys()) == {"h.0.w", 'i "\\é', "e"}, f.keys()
    w, i, e = (f.get_tensor(n) for n in ("h.0.w", 'i "\\é', "e"))
    assert w.dtype == "float32" and w.shape == (3, 1) and w.ravel().tolist() == [0.5, -1, 2], w
    assert i.shape == () and int(i) == -3, i
    assert e.dtype == "float16" and e.shape == (2, 0), e
)");
  const CommandEnd end =
      end_of_command(*python + " " + (folder / "check.py").string() + " " + (folder / "model").string() + " 2>&1");
  EXPECT_EQ(end.status, 0) << end.text;
}

}  // namespace
}  // namespace zero
