#include "app/data/images/fitted_picture.h"

#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

using Bytes = std::vector<std::uint8_t>;

Picture some_picture() {
  return {.channels = 1,
          .height = 3,
          .width = 5,
          .pixels = {0, 10, 200, 255, 30, 40, 80, 120, 160, 200, 255, 0, 255, 0, 255}};
}

Bytes fitted(const Picture& picture, std::int64_t height, std::int64_t width) {
  return fitted_picture(picture, {.height = height, .width = width}).pixels;
}

// The values of Pillow: resize((10, 6), BILINEAR), and resize((3, 2), BILINEAR) of the cropped middle.
TEST(FittedPicture, PixelsAreThoseOfPillow) {
  EXPECT_EQ(fitted(some_picture(), 6, 10),
            (Bytes{0,   3,   8,  58, 153, 214, 241, 199, 86,  30,  10,  15,  24, 66, 142, 193, 218, 192, 112, 73,
                   30,  38,  55, 82, 121, 151, 173, 177, 164, 158, 94,  85,  69, 84, 130, 145, 129, 144, 190, 214,
                   201, 156, 66, 71, 171, 176, 86,  91,  191, 241, 255, 191, 64, 64, 191, 191, 64,  64,  191, 255}));
  EXPECT_EQ(fitted(some_picture(), 2, 3), (Bytes{24, 151, 147, 113, 134, 160}));
}

TEST(FittedPicture, SameSizeChangesNothing) {
  EXPECT_EQ(fitted(some_picture(), 3, 5), some_picture().pixels);
}

// If an odd number of pixels is cut off, Python's round() divides it: 0.5 is 0, 1.5 is 2.
TEST(FittedPicture, CropIsCentred) {
  const Picture wide{.channels = 1, .height = 1, .width = 6, .pixels = {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(fitted(wide, 1, 2), (Bytes{3, 4}));
  EXPECT_EQ(fitted(wide, 1, 3), (Bytes{3, 4, 5}));
  EXPECT_EQ(fitted(wide, 1, 5), (Bytes{1, 2, 3, 4, 5}));
  const Picture tall{.channels = 1, .height = 6, .width = 1, .pixels = {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(fitted(tall, 3, 1), (Bytes{3, 4, 5}));
}

TEST(FittedPicture, PlanesAreFittedAlike) {
  Picture colours = some_picture();
  colours.channels = 3;
  for (int plane = 0; plane < 2; ++plane) {
    const Bytes first = some_picture().pixels;
    colours.pixels.insert(colours.pixels.end(), first.begin(), first.end());
  }
  const Bytes grey = fitted(some_picture(), 4, 4), all = fitted(colours, 4, 4);
  ASSERT_EQ(all.size(), 3 * grey.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], grey[i % grey.size()]);
}

// To cover 64 x 64, a line of 16,384 pixels would become 64 x 1,048,576. Only its middle is computed.
TEST(FittedPicture, OnlyTheMiddleIsComputed) {
  Picture line{.channels = 1, .height = 1, .width = 16384, .pixels = Bytes(16384, 7)};
  EXPECT_EQ(fitted(line, 64, 64), Bytes(64 * 64, 7));
}

}  // namespace
}  // namespace zero
