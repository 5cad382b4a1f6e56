#include "app/data/sample/picture.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/data/make_pictures.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

using Bytes = std::vector<std::uint8_t>;

Picture decoded(const std::string& file, std::int64_t channels) {
  return decode_picture(file, channels, "data.path", "a/b.png");
}

std::string refusal(const std::string& file) {
  return message_of<ConfigError>([&] { decoded(file, 1); });
}

TEST(Picture, ReadsPngPlaneByPlane) {
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

TEST(Picture, ReadsJpegInGreyAndColour) {
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

// The grey value of a picture that has only one colour.
int grey_of(const std::string& file) {
  const Picture picture = decoded(file, 1);
  EXPECT_EQ(picture.pixels, Bytes(picture.pixels.size(), picture.pixels.front()));
  return picture.pixels.front();
}

// 299 R + 587 G + 114 B, as in Pillow.
TEST(Picture, GreyIsItu601InBothFormats) {
  const std::vector<std::pair<Bytes, int>> colours{{{0, 0, 255}, 29},    {{0, 255, 0}, 150},   {{255, 0, 0}, 76},
                                                   {{255, 255, 0}, 226}, {{10, 200, 90}, 131}, {{77, 77, 77}, 77}};
  for (const auto& [colour, grey] : colours) {
    EXPECT_EQ(grey_of(png_file(all_of(8, 8, colour))), grey);
    EXPECT_NEAR(grey_of(jpeg_file(all_of(8, 8, colour))), grey, 1);
  }
}

TEST(Picture, SixteenBitsAreDividedBy257) {
  const auto bytes_of = [](const std::vector<int>& values) {
    Bytes row;
    for (const int value : values) {
      row.push_back(static_cast<std::uint8_t>(value >> 8));
      row.push_back(static_cast<std::uint8_t>(value & 255));
    }
    return row;
  };
  const std::string grey = png_of({.bits = 16}, 6, {bytes_of({0, 6554, 65535, 128, 129, 116 * 257})});
  EXPECT_EQ(decoded(grey, 1).pixels, (Bytes{0, 26, 255, 0, 1, 116})) << "6554 / 257 is 25.502";
  const std::string rgb = png_of({.bits = 16, .colour = PNG_COLOR_TYPE_RGB}, 1, {bytes_of({6554, 257, 65535})});
  EXPECT_EQ(decoded(rgb, 3).pixels, (Bytes{26, 1, 255}));
}

TEST(Picture, FewBitsOfGreyAreSpread) {
  EXPECT_EQ(decoded(png_of({.bits = 1}, 4, {{0b0101'0000}}), 1).pixels, (Bytes{0, 255, 0, 255}));
  EXPECT_EQ(decoded(png_of({.bits = 2}, 4, {{0b0001'1011}}), 1).pixels, (Bytes{0, 85, 170, 255}));
  EXPECT_EQ(decoded(png_of({.bits = 4}, 2, {{0x0f}}), 1).pixels, (Bytes{0, 255}));
}

TEST(Picture, GammaChangesNoValue) {
  for (const double gamma : {0.0, 0.45455, 1.0, 2.2}) {
    EXPECT_EQ(decoded(png_of({.gamma = gamma}, 2, {{116, 7}}), 1).pixels, (Bytes{116, 7})) << gamma;
    const std::string blue = png_of({.colour = PNG_COLOR_TYPE_RGB, .gamma = gamma}, 1, {{0, 0, 255}});
    EXPECT_EQ(decoded(blue, 1).pixels, Bytes{29}) << gamma;
  }
}

TEST(Picture, AlphaIsDropped) {
  const std::string rgba = png_of({.colour = PNG_COLOR_TYPE_RGB_ALPHA}, 2, {{10, 20, 30, 0, 40, 50, 60, 128}});
  EXPECT_EQ(decoded(rgba, 3).pixels, (Bytes{10, 40, 20, 50, 30, 60}));
  EXPECT_EQ(decoded(png_of({.colour = PNG_COLOR_TYPE_GRAY_ALPHA}, 2, {{9, 0, 200, 7}}), 1).pixels, (Bytes{9, 200}));
  const std::string palette =
      png_of({.colour = PNG_COLOR_TYPE_PALETTE,
              .palette = {{.red = 0, .green = 0, .blue = 255}, {.red = 9, .green = 8, .blue = 7}},
              .palette_alpha = {0, 99}},
             2, {{0, 1}});
  EXPECT_EQ(decoded(palette, 3).pixels, (Bytes{0, 9, 0, 8, 255, 7}));
  EXPECT_EQ(decoded(palette, 1).pixels, (Bytes{29, 8}));
}

TEST(Picture, AnInterlacedPngIsReadWhole) {
  std::vector<Bytes> rows(9, Bytes(11));
  Bytes all;
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (std::size_t column = 0; column < 11; ++column)
      all.push_back(rows[row][column] = static_cast<std::uint8_t>(20 * row + column));
  EXPECT_EQ(decoded(png_of({.interlaced = true}, 11, rows), 1).pixels, all);
}

// C * K / 255, and the same for M and Y. Stored values are 255 minus the ink.
TEST(Picture, ReadsAdobesCmyk) {
  const auto pixel = [](const Bytes& cmyk) {
    const Picture picture = decoded(cmyk_jpeg_file(8, 8, cmyk), 3);
    return std::vector<int>{picture.pixels[0], picture.pixels[64], picture.pixels[128]};
  };
  const auto expect_near = [](const std::vector<int>& found, const std::vector<int>& wanted) {
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i], wanted[i], 2);
  };
  expect_near(pixel({200, 100, 50, 255}), {200, 100, 50});
  expect_near(pixel({200, 100, 50, 128}), {100, 50, 25});
  expect_near(pixel({255, 255, 255, 0}), {0, 0, 0});
  EXPECT_NEAR(grey_of(cmyk_jpeg_file(8, 8, {0, 0, 255, 255})), 29, 1);
}

TEST(Picture, AnotherFormatIsRefused) {
  for (const char* const file : {"", "GIF89a", "P5 1 1 255 a", "\x89PN"})
    EXPECT_TRUE(says(refusal(file), "data.path = a/b.png: neither a PNG nor a JPEG")) << file;
}

TEST(Picture, RefusesDamageAtEveryCut) {
  const std::string png = png_file(all_of(9, 7, {1, 2, 3})), jpeg = jpeg_file(all_of(16, 16, {9}));
  for (std::size_t bytes = 8; bytes < png.size() - 12; ++bytes)
    EXPECT_TRUE(says(refusal(png.substr(0, bytes)), "a damaged PNG: ")) << bytes;
  for (std::size_t bytes = 3; bytes < jpeg.size() - 2; ++bytes)
    EXPECT_TRUE(says(refusal(jpeg.substr(0, bytes)), "a damaged JPEG: ")) << bytes;
}

// A valid header asks for 100,000 pixels on each side. The decoder must not allocate 10 GB for it.
TEST(Picture, RefusesHugeOnesBeforeAllocating) {
  std::string file = png_file(all_of(1, 1, {0}));
  const std::string side("\x00\x00\x7f\xff", 4);
  file.replace(16, 8, side + side);
  EXPECT_TRUE(says(refusal(file), "a damaged PNG: ") || says(refusal(file), "the most is 16384 on a side"));
}

}  // namespace
}  // namespace zero
