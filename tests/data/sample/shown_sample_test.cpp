#include "app/data/sample/shown_sample.h"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

Picture grey(std::int64_t height, std::int64_t width, std::vector<std::uint8_t> pixels) {
  return {.height = height, .width = width, .pixels = std::move(pixels)};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(ShownPicture, BrighterPartsHaveDenserCharacters) {
  EXPECT_EQ(shown_picture(grey(1, 3, {0, 128, 255}), 60), " +@");
  EXPECT_EQ(shown_picture(grey(1, 3, {100, 110, 120}), 60), " +@") << "between the darkest and the brightest part";
}

TEST(ShownPicture, ACharacterIsTwoPixelsHigh) {
  EXPECT_EQ(shown_picture(grey(4, 2, {255, 0, 255, 0, 0, 255, 0, 255}), 60), "@\n @");
  EXPECT_EQ(shown_picture(grey(3, 1, {0, 0, 255}), 60), "@") << "a dark line is left out, a single last row is kept";
}

// Also at most the given number of columns.
TEST(ShownPicture, HasEightLinesAtMost) {
  for (const auto& [height, width] : {std::pair{28, 28}, {224, 224}, {300, 20}, {20, 300}, {97, 131}, {1, 1}}) {
    std::vector<std::uint8_t> pixels;
    for (int i = 0; i < height * width; ++i) pixels.push_back(static_cast<std::uint8_t>(i % 2 == 0 ? 255 : 1));
    const auto lines = lines_of(shown_picture(grey(height, width, pixels), 40));
    EXPECT_LE(lines.size(), 8U) << height << " x " << width;
    for (const std::string& line : lines) EXPECT_LE(line.size(), 40U) << height << " x " << width;
  }
}

TEST(ShownPicture, ColoursCountAsTheirMean) {
  const Picture colours{.channels = 3, .height = 1, .width = 2, .pixels = {255, 0, 255, 0, 255, 0}};
  EXPECT_EQ(shown_picture(colours, 60), "@");
}

TEST(ShownPicture, OneOfOneBrightnessShowsIt) {
  EXPECT_EQ(shown_picture(grey(2, 2, {255, 255, 255, 255}), 60), "@@");
  EXPECT_EQ(shown_picture(grey(2, 2, {0, 0, 0, 0}), 60), "");
}

TEST(ShownClass, HasItsNameOrNumber) {
  const std::vector<std::string> names{"daisy", "tu\nlip", std::string(30, 'y')};
  EXPECT_EQ(shown_class(names, 0), "daisy");
  EXPECT_EQ(shown_class(names, 1), "tu lip");
  EXPECT_EQ(shown_class(names, 2), std::string(21, 'y') + "...");
  EXPECT_EQ(shown_class(names, 3), "3") << "a model may have more classes than its data";
  EXPECT_EQ(shown_class({}, 123456), "123456");
}

}  // namespace
}  // namespace zero
