// Picture: a picture in memory, decoded by libpng or libjpeg-turbo.
//
//   Picture picture = decode_picture(read_file(path), 1, "data.path", path.native());
//   picture.pixels                     // channels x height x width bytes, as torch's images are laid out
//
// The file is a PNG or a JPEG, recognised by its first bytes. Pixels equal those of Pillow's Image.convert("L") or
// ("RGB"):
//   8 bits       as in the file: gAMA, sRGB, ICC profiles and EXIF orientation are ignored
//   16 bits      v / 257, rounded; 1, 2 and 4 bits of grey are scaled to 0 to 255
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

// A picture with more pixels in height or width is refused as damaged before memory is allocated.
constexpr std::int64_t kMostPictureSide = 16384;

// Decodes a file. `channels`: 1 for grey, 3 for red, green and blue. Throws ConfigError(key, path) if the file is of
// another kind or damaged; the message has the decoder's text.
Picture decode_picture(std::string_view file, std::int64_t channels, std::string_view key, std::string_view path);

}  // namespace zero
