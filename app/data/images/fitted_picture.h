// fitted_picture(): a picture of another size, as torchvision's Resize and CenterCrop make it with Pillow.
//
//   fitted_picture(picture, {.height = 32, .width = 32})       // 40 x 64 pixels: resized to 32 x 51, then cut to 32 x 32
//
// The picture is scaled until it covers the size, its proportions kept; then both ends of the longer side are cut off.
// Pixels are those of Pillow's resize(BILINEAR): the filter spreads over all pixels that an output covers (antialias),
// columns first, each pass rounded to 8 bits. Local.
#pragma once

#include <cstdint>

#include "app/data/sample/picture.h"

namespace zero {

struct ImageSize {
  std::int64_t height = 0, width = 0;  // pixels; 0: the pictures' own
  bool is_given() const { return height > 0; }
  bool operator==(const ImageSize&) const = default;
};

// `size` is given.
Picture fitted_picture(const Picture& picture, ImageSize size);

}  // namespace zero
