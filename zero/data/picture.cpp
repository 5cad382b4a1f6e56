#include "zero/data/picture.h"

#include <memory>

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include "zero/base/check.h"
#include "zero/base/error.h"

namespace zero {
namespace {

constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegStart = "\xff\xd8\xff";

// The file that is being decoded, and what to say where it cannot be.
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

Picture empty_picture(std::int64_t channels, std::int64_t height, std::int64_t width) {
  return {.channels = channels,
          .height = height,
          .width = width,
          .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(channels * height * width))};
}

// From pixel after pixel, as decoders write them, to plane after plane.
void to_planes(Picture& picture) {
  if (picture.channels == 1) return;
  const std::vector<std::uint8_t> mixed = picture.pixels;
  const auto channels = static_cast<std::size_t>(picture.channels);
  const std::size_t plane = mixed.size() / channels;
  for (std::size_t at = 0; at < plane; ++at)
    for (std::size_t channel = 0; channel < channels; ++channel)
      picture.pixels[channel * plane + at] = mixed[at * channels + channel];
}

Picture decode_png(const Source& source, std::int64_t channels) {
  const auto release = [](png_image* image) { png_image_free(image); };
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, decltype(release)> released(&image, release);
  if (png_image_begin_read_from_memory(&image, source.file.data(), source.file.size()) == 0)
    source.refuse(fmt::format("a damaged PNG: {}", image.message));
  source.require_sides(image.height, image.width);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Picture picture = empty_picture(channels, image.height, image.width);
  constexpr png_color kBlack{};
  if (png_image_finish_read(&image, &kBlack, picture.pixels.data(), 0, nullptr) == 0)
    source.refuse(fmt::format("a damaged PNG: {}", image.message));
  return picture;
}

Picture decode_jpeg(const Source& source, std::int64_t channels) {
  const auto release = [](void* decoder) { tjDestroy(decoder); };
  const std::unique_ptr<void, decltype(release)> decoder(tjInitDecompress(), release);
  ZERO_CHECK(decoder != nullptr, "libjpeg-turbo: {}", tjGetErrorStr2(nullptr));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(source.file.data());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  const auto fails = [&] { source.refuse(fmt::format("a damaged JPEG: {}", tjGetErrorStr2(decoder.get()))); };
  if (tjDecompressHeader3(decoder.get(), bytes, source.file.size(), &width, &height, &subsampling, &colours) != 0)
    fails();
  if (height == 0 || width == 0) source.refuse("a damaged JPEG: it ends in its header");
  source.require_sides(height, width);
  Picture picture = empty_picture(channels, height, width);
  // The slow transform is exact: the same pixels on every machine. A warning (data that ends early) is damage, too.
  if (tjDecompress2(decoder.get(), bytes, source.file.size(), picture.pixels.data(), width, 0, height,
                    channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT) != 0)
    fails();
  return picture;
}

}  // namespace

Picture decode_picture(std::string_view file, std::int64_t channels, std::string_view key, std::string_view path) {
  ZERO_CHECK(channels == 1 || channels == 3, "{} channels", channels);
  const Source source{file, key, path};
  if (!file.starts_with(kPngStart) && !file.starts_with(kJpegStart)) source.refuse("neither a PNG nor a JPEG");
  Picture picture = file.starts_with(kPngStart) ? decode_png(source, channels) : decode_jpeg(source, channels);
  to_planes(picture);
  return picture;
}

}  // namespace zero
