// Picture: one picture in memory, decoded by libpng or libjpeg-turbo.
//
//   Picture picture = decode_picture(read_file(path), 1, "data.path", path.native());
//   picture.pixels                     // channels x height x width bytes, as torch's images are laid out
//
// A PNG or a JPEG, told apart by its first bytes; of any depth and palette. Colours become grey by the decoder's own
// weights; what is transparent lies on black. Local.
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

// `channels`: 1, grey; 3, red, green and blue. Throws ConfigError(key, path) for a file of another kind, or one that is
// damaged, with the decoder's words.
Picture decode_picture(std::string_view file, std::int64_t channels, std::string_view key, std::string_view path);

}  // namespace zero
