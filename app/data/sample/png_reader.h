// PngReader: a PNG as pixels of 8 bits, grey or red, green and blue, through libpng's low-level calls, which apply no gamma.
//
//   PngReader png(file);
//   if (!png.read_header()) return refuse(png.message());
//   std::vector<std::uint8_t> pixels(height * width * png.channels());
//   if (!png.read_rows(pixels.data())) return refuse(png.message());
//
// 16 bits become round(v / 257); fewer than 8 bits of grey are spread; palettes become colours; alpha is dropped. Bytes
// after the last row are not read. Local.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <png.h>

namespace zero {

class PngReader {
 public:
  // `file` outlives the reader.
  explicit PngReader(std::string_view file);
  ~PngReader();
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // False: damage, as message() says in libpng's words.
  bool read_header();
  // Row after row, height * width * channels bytes; after read_header().
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
