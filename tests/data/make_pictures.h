// PNG and JPEG files for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>

namespace zero {

// Pixel after pixel: one byte each in grey, three in colour.
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

// A PNG of any kind. `rows`: the bytes of each row as stored in the file, with packed values (16 bits: big-endian).
struct PngKind {
  int bits = 8;
  int colour = PNG_COLOR_TYPE_GRAY;
  double gamma = 0;  // of a gAMA chunk; 0: none
  bool interlaced = false;
  std::vector<png_color> palette{};
  std::vector<std::uint8_t> palette_alpha{};
};

inline std::string png_of(const PngKind& kind, int width, const std::vector<std::vector<std::uint8_t>>& rows) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp to, png_bytep bytes, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(to))->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(rows.size()), kind.bits,
               kind.colour, kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (kind.gamma > 0) png_set_gAMA(png, info, kind.gamma);
  if (!kind.palette.empty()) png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  if (!kind.palette_alpha.empty())
    png_set_tRNS(png, info, kind.palette_alpha.data(), static_cast<int>(kind.palette_alpha.size()), nullptr);
  png_write_info(png, info);
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass)
    for (const auto& row : rows) png_write_row(png, row.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

// Like Adobe's files: YCCK, in which each value is 255 minus the ink.
inline std::string cmyk_jpeg_file(int height, int width, const std::vector<std::uint8_t>& pixel) {
  std::vector<std::uint8_t> values;
  for (int i = 0; i < height * width; ++i) values.insert(values.end(), pixel.begin(), pixel.end());
  const tjhandle encoder = tjInitCompress();
  unsigned char* file = nullptr;
  unsigned long bytes = 0;
  EXPECT_EQ(tjCompress2(encoder, values.data(), width, 0, height, TJPF_CMYK, &file, &bytes, TJSAMP_444, 100,
                        TJFLAG_ACCURATEDCT),
            0);
  std::string copy(reinterpret_cast<const char*>(file), bytes);
  tjFree(file);
  tjDestroy(encoder);
  return copy;
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
