#include "zero/data/picture.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error.h"

#include "tests/data/make_pictures.h"
#include "tests/message_of.h"

namespace zero {
namespace {

using Bytes = std::vector<std::uint8_t>;

Picture decoded(const std::string& file, std::int64_t channels) {
  return decode_picture(file, channels, "data.path", "a/b.png");
}

std::string refusal(const std::string& file) {
  return message_of<ConfigError>([&] { decoded(file, 1); });
}

TEST(Picture, APngIsReadPlaneByPlane) {
  const Picture picture = decoded(png_file({.height = 1, .width = 2, .values = {1, 2, 3, 4, 5, 6}}), 3);
  EXPECT_EQ(picture.height, 1);
  EXPECT_EQ(picture.width, 2);
  EXPECT_EQ(picture.pixels, (Bytes{1, 4, 2, 5, 3, 6}));
}

TEST(Picture, AGreyPngKeepsItsValues) {
  const std::string file = png_file({.height = 2, .width = 2, .values = {0, 7, 200, 255}});
  EXPECT_EQ(decoded(file, 1).pixels, (Bytes{0, 7, 200, 255}));
  EXPECT_EQ(decoded(file, 3).pixels, (Bytes{0, 7, 200, 255, 0, 7, 200, 255, 0, 7, 200, 255}));
}

TEST(Picture, AJpegIsReadInGreyAndInColour) {
  EXPECT_EQ(decoded(jpeg_file(all_of(8, 8, {100})), 1).pixels, Bytes(64, 100));
  const Picture red = decoded(jpeg_file(all_of(8, 8, {255, 0, 0})), 3);
  ASSERT_EQ(red.pixels.size(), 192u);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_GE(red.pixels[i], 250);
    EXPECT_LE(red.pixels[64 + i], 5);
    EXPECT_LE(red.pixels[128 + i], 5);
  }
  const Picture grey = decoded(jpeg_file(all_of(8, 8, {255, 0, 0})), 1);
  EXPECT_NEAR(grey.pixels[0], 76, 2) << "0.299 of 255";
}

TEST(Picture, AnotherFormatIsRefused) {
  for (const char* const file : {"", "GIF89a", "P5 1 1 255 a", "\x89PN"})
    EXPECT_TRUE(says(refusal(file), "data.path = a/b.png: neither a PNG nor a JPEG")) << file;
}

TEST(Picture, DamageIsRefusedWhereverAFileIsCut) {
  const std::string png = png_file(all_of(9, 7, {1, 2, 3})), jpeg = jpeg_file(all_of(16, 16, {9}));
  for (std::size_t bytes = 8; bytes < png.size() - 12; ++bytes)
    EXPECT_TRUE(says(refusal(png.substr(0, bytes)), "a damaged PNG: ")) << bytes;
  for (std::size_t bytes = 3; bytes < jpeg.size() - 2; ++bytes)
    EXPECT_TRUE(says(refusal(jpeg.substr(0, bytes)), "a damaged JPEG: ")) << bytes;
}

// 100,000 pixels on a side, in a header that has its checksum: nobody takes 10 GB for it.
TEST(Picture, AHugeOneIsRefusedBeforeMemoryIsTaken) {
  std::string file = png_file(all_of(1, 1, {0}));
  const std::string side("\x00\x00\x7f\xff", 4);
  file.replace(16, 8, side + side);
  EXPECT_TRUE(says(refusal(file), "a damaged PNG: ") || says(refusal(file), "the most is 16384 on a side"));
}

}  // namespace
}  // namespace zero
