// Pictures in the two formats, as a test wants them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>

namespace zero {

// Pixel after pixel, a byte each in grey, three in colour.
struct Pixels {
  int height = 0, width = 0;
  std::vector<std::uint8_t> values;

  bool in_colour() const { return values.size() == static_cast<std::size_t>(3 * height * width); }
};

inline Pixels all_of(int height, int width, std::vector<std::uint8_t> pixel) {
  Pixels pixels{height, width, {}};
  for (int i = 0; i < height * width; ++i) pixels.values.insert(pixels.values.end(), pixel.begin(), pixel.end());
  return pixels;
}

inline std::string png_file(const Pixels& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(pixels.height);
  image.width = static_cast<png_uint_32>(pixels.width);
  image.format = pixels.in_colour() ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t bytes = 0;
  EXPECT_NE(png_image_write_to_memory(&image, nullptr, &bytes, 0, pixels.values.data(), 0, nullptr), 0);
  std::string file(bytes, '\0');
  EXPECT_NE(png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels.values.data(), 0, nullptr), 0);
  file.resize(bytes);
  return file;
}

inline std::string jpeg_file(const Pixels& pixels) {
  const tjhandle encoder = tjInitCompress();
  unsigned char* file = nullptr;
  unsigned long bytes = 0;
  EXPECT_EQ(tjCompress2(encoder, pixels.values.data(), pixels.width, 0, pixels.height,
                        pixels.in_colour() ? TJPF_RGB : TJPF_GRAY, &file, &bytes,
                        pixels.in_colour() ? TJSAMP_444 : TJSAMP_GRAY, 100, TJFLAG_ACCURATEDCT),
            0);
  std::string copy(reinterpret_cast<const char*>(file), bytes);
  tjFree(file);
  tjDestroy(encoder);
  return copy;
}

}  // namespace zero
