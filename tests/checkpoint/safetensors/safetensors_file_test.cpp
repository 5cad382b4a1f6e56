#include "zero/checkpoint/safetensors/safetensors_file.h"

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// Written by Python's safetensors 0.8.0 (safetensors.numpy.save): {"w": float32 [0, 1, 2], "i": int64 [[1], [2]],
// "s": uint8 7, "e": float16 of shape [0, 4]}.
const std::string kByPython =
    std::string("\x00\x01\x00\x00\x00\x00\x00\x00", 8) +
    R"({"__metadata__":{"format":"pt"},"i":{"dtype":"I64","shape":[2,1],"data_offsets":[0,16]},)"
    R"("w":{"dtype":"F32","shape":[3],"data_offsets":[16,28]},)"
    R"("e":{"dtype":"F16","shape":[0,4],"data_offsets":[28,28]},)"
    R"("s":{"dtype":"U8","shape":[],"data_offsets":[28,29]}}   )" +
    std::string("\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\x40\x07", 29);

std::vector<float> floats_of(const SafetensorsFile& file, std::string_view name) {
  std::vector<float> values(static_cast<std::size_t>(file.at(name).numel()));
  file.read(file.at(name), 0, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(SafetensorsFile, ReadsWhatPythonWrote) {
  const TemporaryFolder folder;
  const auto file = SafetensorsFile::open(folder.write("model.safetensors", kByPython));
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}}));
  ASSERT_EQ(file.entries().size(), 4u);
  EXPECT_EQ(file.at("i").dtype, ElementType::kI64);
  EXPECT_EQ(file.at("i").shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(floats_of(file, "w"), (std::vector<float>{0, 1, 2}));
  std::byte s{};
  file.read(file.at("s"), 0, {&s, 1});
  EXPECT_EQ(s, std::byte{7});
  EXPECT_EQ(file.at("e").size_bytes(), 0);
}

TEST(SafetensorsFile, ReadsFromTheMiddleOfTensors) {
  const TemporaryFolder folder;
  const auto file = SafetensorsFile::open(folder.write("model.safetensors", kByPython));
  float last = 0;
  file.read(file.at("w"), 8, std::as_writable_bytes(std::span(&last, 1)));
  EXPECT_EQ(last, 2.0f);
  EXPECT_THROW(file.read(file.at("w"), 12, std::as_writable_bytes(std::span(&last, 1))), InternalError)
      << "the bytes after it belong to another tensor";
}

TEST(SafetensorsFile, ShrinkingFileIsNamedWithBytes) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.safetensors", kByPython);
  const auto file = SafetensorsFile::open(path);
  std::filesystem::resize_file(path, kByPython.size() - 6);  // 7 bytes of w are left
  const auto message = message_of<IoError>([&] { floats_of(file, "w"); });
  EXPECT_TRUE(says(message, path.string() + ": read of 5 bytes at "));
  EXPECT_TRUE(says(message, fmt::format("it ended after {} bytes, and it had {} when it was opened",
                                        kByPython.size() - 6, kByPython.size())));
}

TEST(SafetensorsFile, CanBeMoved) {
  const TemporaryFolder folder;
  auto first = SafetensorsFile::open(folder.write("model.safetensors", kByPython));
  const SafetensorsFile second = std::move(first);
  EXPECT_EQ(floats_of(second, "w"), (std::vector<float>{0, 1, 2}));
}

TEST(SafetensorsFile, AbsentTensorIsNamed) {
  const TemporaryFolder folder;
  const auto file = SafetensorsFile::open(folder.write("model.safetensors", kByPython));
  EXPECT_EQ(file.find("v"), nullptr);
  EXPECT_EQ(file.find("w"), &file.at("w"));
  const auto message = message_of<ConfigError>([&] { file.at("v"); });
  EXPECT_TRUE(says(message, "holds no tensor 'v'"));
  EXPECT_TRUE(says(message, "It holds 4 tensors, among them i, w, e. List all of them with: zero inspect "));
}

TEST(SafetensorsFile, EmptySetHasNoNames) {
  const TemporaryFolder folder;
  const auto file = SafetensorsFile::open(folder.write("model.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10)));
  EXPECT_TRUE(says(message_of<ConfigError>([&] { file.at("v"); }), "It holds 0 tensors. "));
}

TEST(SafetensorsFile, EveryTruncationIsDetected) {
  const TemporaryFolder folder;
  for (std::size_t size = 0; size < kByPython.size(); ++size) {
    const auto path = folder.write("model.safetensors", kByPython.substr(0, size));
    EXPECT_THROW(SafetensorsFile::open(path), ConfigError) << size;
  }
}

TEST(SafetensorsFile, ContentErrorsNameTheFile) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.safetensors", "not a model");
  EXPECT_TRUE(message_of<ConfigError>([&] { SafetensorsFile::open(path); }).starts_with(path.string() + ": "));
}

TEST(SafetensorsFile, MissingFileIsNamedByKey) {
  EXPECT_TRUE(says(message_of<ConfigError>([] { SafetensorsFile::open("none.safetensors", "model.init"); }),
                   "model.init = none.safetensors: no such file"));
}

}  // namespace
}  // namespace zero
