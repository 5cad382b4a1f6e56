#include "app/data/images/idx.h"

#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/data/make_files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

IdxArray parse(std::string_view file, int num_dimensions) {
  return parse_idx(std::as_bytes(std::span(file)), num_dimensions, "data.path", "t10k");
}

std::string refusal(std::string_view file, int num_dimensions = 3) {
  return message_of<ConfigError>([&] { parse(file, num_dimensions); });
}

TEST(Idx, ReadsImagesAndLabels) {
  const auto images = parse(idx_images(2, 2, 3, "abcdefghijkl"), 3);
  EXPECT_EQ(images.shape, (std::vector<std::int64_t>{2, 2, 3}));
  EXPECT_EQ(std::string(images.values.begin(), images.values.end()), "abcdefghijkl");
  EXPECT_EQ(parse(idx_labels("\1\2\3"), 1).values, (std::vector<std::uint8_t>{1, 2, 3}));
}

TEST(Idx, ReadsCompressedFilesAlike) {
  const std::string file = idx_images(2, 2, 3, "abcdefghijkl");
  EXPECT_EQ(parse(gzipped(file), 3).values, parse(file, 3).values);
  EXPECT_EQ(parse(gzipped(file), 3).shape, parse(file, 3).shape);
}

TEST(Idx, MayBeEmpty) {
  EXPECT_TRUE(parse(idx_images(0, 28, 28, ""), 3).values.empty());
}

TEST(Idx, TheMagicSaysTypeAndDimensions) {
  EXPECT_TRUE(says(refusal(idx_labels("abcdefghijklmnop")), "begins with 0x00000801; expected 0x00000803"));
  EXPECT_TRUE(says(refusal(idx_file(0x0D03, {1, 1, 1}, "abcd")), "begins with 0x00000d03"));
  EXPECT_TRUE(says(refusal(idx_images(1, 1, 1, "a"), 1), "unsigned bytes in 1 dimension"));
  EXPECT_TRUE(says(refusal("some text, not IDX"), "begins with 0x736f6d65"));
}

TEST(Idx, SizeMustMatchTheHeader) {
  for (const bool compressed : {false, true}) {
    const auto file = [&](const std::string& contents) { return compressed ? gzipped(contents) : contents; };
    EXPECT_TRUE(says(refusal(file(idx_images(2, 1, 1, "a"))), "announces 18 bytes, but the file has 17")) << compressed;
    EXPECT_TRUE(says(refusal(file(idx_images(1, 1, 1, "ab"))), "announces 17 bytes, but ")) << compressed;
    EXPECT_TRUE(says(refusal(file(idx_images(1, 1, 1, "").substr(0, 15))), "cut short: 15 bytes, the header has 16"))
        << compressed;
  }
  EXPECT_TRUE(says(refusal(""), "the file is empty"));
}

TEST(Idx, HugeSizesCostNoMemory) {
  EXPECT_TRUE(says(refusal(idx_images(0xffffffff, 0xffffffff, 0xffffffff, "")), "overflow"));
  EXPECT_TRUE(says(refusal(idx_images(0x7fffffff, 0x7fffffff, 1, "")), "but the file has 16"));
  EXPECT_TRUE(says(refusal(gzipped(idx_images(0x7fffffff, 0x7fffffff, 1, ""))), "but the file has 16"));
}

TEST(Idx, ReadsFilesAndNamesTheirPath) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_idx(folder.write("l", idx_labels("\5")), 1, "data.path").values[0], 5);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { read_idx(folder / "none", 1, "data.path"); }), "no such file"));
  const auto path = folder.write("bad", "bad");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { read_idx(path, 1, "data.path"); }), "data.path = " + path.string()));
}

}  // namespace
}  // namespace zero
