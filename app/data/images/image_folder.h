// A folder of pictures, as torchvision's ImageFolder reads it: one folder a class, and its pictures in there.
//
//   flowers/daisy/1.jpg   flowers/daisy/2.png   flowers/tulip/1.jpg      // classes: daisy 0, tulip 1
//
//   LabelledImages flowers = read_image_folder("flowers", 3, "data.path", {.height = 32, .width = 32});
//
// Classes are numbered in the order of their names. Pictures (PNG or JPEG, at any depth of the class's folder) are in an
// order that depends on their number only and mixes the classes. A given size is that of all images, each by
// fitted_picture(); else all pictures must have one size. Names that begin with a dot are passed over. All of it is decoded at
// once, and takes a byte a pixel and channel in each rank. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "app/data/images/fitted_picture.h"
#include "app/data/images/labelled_images.h"

namespace zero {

// Throws ConfigError(key) for a path that is no folder, a class without pictures, a file that is no picture, sizes that
// differ; IoError for what cannot be read.
LabelledImages read_image_folder(const std::filesystem::path& folder, std::int64_t channels, std::string_view key,
                                 ImageSize size = {});

}  // namespace zero
