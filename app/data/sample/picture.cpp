#include "app/data/sample/picture.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <turbojpeg.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

#include "app/data/sample/png_reader.h"

namespace zero {
namespace {

constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegStart = "\xff\xd8\xff";

// The file that is being decoded, and the error for a damaged file.
struct Source {
  std::string_view file;
  std::string_view key, path;

  [[noreturn]] void refuse(std::string_view why) const {
    throw ConfigError(key, path, why, "replace this picture, or take it out of the folder");
  }
  void require_sides(std::int64_t height, std::int64_t width) const {
    if (height < 1 || width < 1 || height > kMostPictureSide || width > kMostPictureSide)
      refuse(fmt::format("a picture of {} x {} pixels; the most is {} on a side", height, width, kMostPictureSide));
  }
};

// Values pixel by pixel, as decoders write them: grey, red green blue, or inverted CMYK.
struct Decoded {
  std::int64_t height = 0, width = 0;
  std::size_t values = 1;  // number of values of a pixel: 1, 3 or 4
  std::vector<std::uint8_t> pixels;
};

void take_memory(Decoded& decoded) {
  decoded.pixels.resize(decoded.values * static_cast<std::size_t>(decoded.height * decoded.width));
}

Decoded decode_png(const Source& source) {
  PngReader png(source.file);
  const auto fails = [&] { source.refuse(fmt::format("a damaged PNG: {}", png.message())); };
  if (!png.read_header()) fails();
  source.require_sides(png.height(), png.width());
  Decoded decoded{
      .height = png.height(), .width = png.width(), .values = static_cast<std::size_t>(png.channels()), .pixels = {}};
  ZERO_CHECK(decoded.values == 1 || decoded.values == 3, "a PNG with {} values a pixel", decoded.values);
  take_memory(decoded);
  if (!png.read_rows(decoded.pixels.data())) fails();
  return decoded;
}

// Returns the pixel format to which libjpeg-turbo decodes a JPEG's colour space, with the same number of values.
TJPF pixel_format(int colours) {
  return colours == TJCS_GRAY ? TJPF_GRAY : colours == TJCS_CMYK || colours == TJCS_YCCK ? TJPF_CMYK : TJPF_RGB;
}

Decoded decode_jpeg(const Source& source) {
  const auto release = [](void* decoder) { tjDestroy(decoder); };
  const std::unique_ptr<void, decltype(release)> decoder(tjInitDecompress(), release);
  ZERO_CHECK(decoder != nullptr, "libjpeg-turbo: {}", tjGetErrorStr2(nullptr));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(source.file.data());
  int width = 0, height = 0, subsampling = 0, colours = -1;
  const auto fails = [&] { source.refuse(fmt::format("a damaged JPEG: {}", tjGetErrorStr2(decoder.get()))); };
  const bool read =
      tjDecompressHeader3(decoder.get(), bytes, source.file.size(), &width, &height, &subsampling, &colours) == 0;
  // libjpeg-turbo also decodes a subsampling that it has no name for.
  const bool only_unnamed = width > 0 && height > 0 && colours >= 0 && subsampling < 0;
  if (!read && !only_unnamed) fails();
  if (height == 0 || width == 0) source.refuse("a damaged JPEG: it ends in its header");
  source.require_sides(height, width);
  const TJPF format = pixel_format(colours);
  Decoded decoded{
      .height = height, .width = width, .values = static_cast<std::size_t>(tjPixelSize[format]), .pixels = {}};
  take_memory(decoded);
  // The slow transform is exact: it gives the same pixels on every machine. A warning, such as for data that ends
  // early, also counts as damage.
  if (tjDecompress2(decoder.get(), bytes, source.file.size(), decoded.pixels.data(), width, 0, height, format,
                    TJFLAG_ACCURATEDCT) != 0)
    fails();
  return decoded;
}

// Returns a * b / 255, rounded as in Pillow.
std::uint8_t product(unsigned a, unsigned b) {
  const unsigned sum = a * b + 128;
  return static_cast<std::uint8_t>((sum + (sum >> 8)) >> 8);
}

// Converts ink to light. A value in the file is 255 - ink. The light is the value's product with the value of black, /
// 255.
void cmyk_to_rgb(Decoded& decoded) {
  const std::size_t count = decoded.pixels.size() / 4;
  for (std::size_t pixel = 0; pixel < count; ++pixel) {
    const std::uint8_t* const from = decoded.pixels.data() + 4 * pixel;
    const unsigned light = from[3];
    for (std::size_t colour = 0; colour < 3; ++colour)
      decoded.pixels[3 * pixel + colour] = static_cast<std::uint8_t>(light - product(255U - from[colour], light));
  }
  decoded.values = 3;
  decoded.pixels.resize(3 * count);
}

std::uint8_t grey_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 32768U) >> 16);
}

Picture to_planes(const Decoded& decoded, std::int64_t channels) {
  Picture picture{.channels = channels, .height = decoded.height, .width = decoded.width, .pixels = {}};
  const auto plane = static_cast<std::size_t>(decoded.height * decoded.width);
  picture.pixels.resize(static_cast<std::size_t>(channels) * plane);
  for (std::size_t at = 0; at < plane; ++at) {
    const std::uint8_t* const from = decoded.pixels.data() + at * decoded.values;
    if (channels == 1) {
      picture.pixels[at] = decoded.values == 1 ? *from : grey_of(from);
    } else {
      for (std::size_t channel = 0; channel < 3; ++channel)
        picture.pixels[channel * plane + at] = from[decoded.values == 1 ? 0 : channel];
    }
  }
  return picture;
}

}  // namespace

Picture decode_picture(std::string_view file, std::int64_t channels, std::string_view key, std::string_view path) {
  ZERO_CHECK(channels == 1 || channels == 3, "{} channels", channels);
  const Source source{file, key, path};
  if (!file.starts_with(kPngStart) && !file.starts_with(kJpegStart)) source.refuse("neither a PNG nor a JPEG");
  Decoded decoded = file.starts_with(kPngStart) ? decode_png(source) : decode_jpeg(source);
  if (decoded.values == 4) cmyk_to_rgb(decoded);
  return to_planes(decoded, channels);
}

}  // namespace zero
