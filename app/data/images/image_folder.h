// read_image_folder(): reads pictures as torchvision's ImageFolder does: a folder for each class, with its pictures.
//
//   flowers/daisy/1.jpg   flowers/daisy/2.png   flowers/tulip/1.jpg      // classes: daisy 0, tulip 1
//
//   LabelledImages flowers = read_image_folder("flowers", 3, "data.path", {.height = 32, .width = 32});
//
// Classes are numbered in the order of their names. Pictures are PNG or JPEG files at any depth of the class's folder.
// A fixed shuffle, which depends only on the number of pictures, mixes the classes. If a size is given,
// fitted_picture() brings each picture to it; else all pictures must have the same size. Names that begin with a dot
// are ignored. All pictures are decoded at once, and take a byte per pixel and channel in each rank. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "app/data/images/fitted_picture.h"
#include "app/data/images/labelled_images.h"

namespace zero {

// Throws ConfigError(key) if the path is no folder, a class has no pictures, a file is no picture, or sizes differ.
// Throws IoError if a file cannot be read.
LabelledImages read_image_folder(const std::filesystem::path& folder, std::int64_t channels, std::string_view key,
                                 ImageSize size = {});

}  // namespace zero
