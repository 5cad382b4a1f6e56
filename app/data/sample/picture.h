// Picture: one picture in memory, decoded by libpng or libjpeg-turbo.
//
//   Picture picture = decode_picture(read_file(path), 1, "data.path", path.native());
//   picture.pixels                     // channels x height x width bytes, as torch's images are laid out
//
// A PNG or a JPEG, recognised by its first bytes. The values are those of Pillow's Image.convert("L") and ("RGB"):
//   8 bits       as in the file: gAMA, sRGB, ICC profiles and EXIF orientation are ignored
//   16 bits      v / 257, rounded; 1, 2 and 4 bits of grey are spread over 0 to 255
//   alpha, tRNS  dropped
//   grey         ITU-R 601 of red, green and blue: (19595 R + 38470 G + 7471 B + 32768) >> 16
//   CMYK, YCCK   inverted, as Adobe writes them: red = C * K / 255, and so on
// Local.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace zero {

struct Picture {
  std::int64_t channels = 1;
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // [channels, height, width]
};

constexpr std::int64_t kMostPictureSide = 16384;  // pixels; more is taken for damage, before memory is taken for it

// `channels`: 1, grey; 3, red, green and blue. Throws ConfigError(key, path) for a file of another kind, or a damaged
// file, with the decoder's words.
Picture decode_picture(std::string_view file, std::int64_t channels, std::string_view key, std::string_view path);

}  // namespace zero
