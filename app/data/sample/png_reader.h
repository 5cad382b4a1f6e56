// PngReader: decodes a PNG to pixels of 8 bits, grey or red, green and blue.
//
//   PngReader png(file);
//   if (!png.read_header()) return refuse(png.message());
//   std::vector<std::uint8_t> pixels(height * width * png.channels());
//   if (!png.read_rows(pixels.data())) return refuse(png.message());
//
// It uses libpng's low-level calls, which do not apply gamma. 16 bits become round(v / 257). Fewer than 8 bits of grey
// are scaled to 0 to 255. Palettes become colours, and alpha is dropped. Bytes after the last row are not read. Local.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <png.h>

namespace zero {

class PngReader {
 public:
  // `file` must outlive the reader.
  explicit PngReader(std::string_view file);
  ~PngReader();
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Returns false if the file is damaged; message() then has libpng's text.
  bool read_header();
  // Writes height * width * channels bytes, row by row. Call it after read_header(). Returns false as read_header()
  // does.
  bool read_rows(std::uint8_t* pixels);

  std::int64_t height() const { return png_get_image_height(png_, info_); }
  std::int64_t width() const { return png_get_image_width(png_, info_); }
  std::int64_t channels() const { return png_get_channels(png_, info_); }  // 1 or 3
  std::string_view message() const { return message_.data(); }

 private:
  static void take(png_structp png, png_bytep to, std::size_t bytes);
  static void fail(png_structp png, png_const_charp message);

  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  std::array<char, 128> message_{};
};

}  // namespace zero
