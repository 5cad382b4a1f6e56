// fitted_picture(): resizes a picture as torchvision's Resize and CenterCrop do with Pillow.
//
//   fitted_picture(picture, {.height = 32, .width = 32})   // 40 x 64 pixels: resized to 32 x 51, then cut to 32 x 32
//
// The picture is scaled to the smallest size with its proportions that covers the wanted size. Then both ends of the
// longer side are cut off. Pixels equal those of Pillow's resize(BILINEAR): the filter covers all input pixels of an
// output pixel (antialias). Columns are filtered first, and each pass is rounded to 8 bits. Local.
#pragma once

#include <cstdint>

#include "app/data/sample/picture.h"

namespace zero {

struct ImageSize {
  std::int64_t height = 0, width = 0;  // pixels; 0: the pictures' own size
  bool is_given() const { return height > 0; }
  bool operator==(const ImageSize&) const = default;
};

// Returns the picture in `size`, which must be given.
Picture fitted_picture(const Picture& picture, ImageSize size);

}  // namespace zero
