#include "app/data/sample/png_reader.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "zero/base/error/check.h"

namespace zero {
namespace {

void ignore_warning(png_structp /*png*/, png_const_charp /*message*/) {}

// The calls between setjmp() and longjmp() are in separate functions, so no local variable is read after a jump.
int set_up(png_structp png, png_infop info) {
  png_read_info(png, info);
  png_set_scale_16(png);
  png_set_expand_gray_1_2_4_to_8(png);
  if (png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  png_set_strip_alpha(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return passes;
}

void read_passes(png_structp png, png_infop info, int passes, std::uint8_t* pixels) {
  const std::size_t row_bytes = png_get_rowbytes(png, info), rows = png_get_image_height(png, info);
  for (int pass = 0; pass < passes; ++pass)
    for (std::size_t row = 0; row < rows; ++row) png_read_row(png, pixels + row * row_bytes, nullptr);
}

}  // namespace

PngReader::PngReader(std::string_view file) : rest_(file) {
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore_warning);
  ZERO_CHECK(png_ != nullptr, "libpng is not that of its header");
  info_ = png_create_info_struct(png_);
  if (info_ == nullptr) png_destroy_read_struct(&png_, nullptr, nullptr);
  ZERO_CHECK(info_ != nullptr, "no memory for a PNG's header");
  png_set_read_fn(png_, this, take);
}

PngReader::~PngReader() {
  png_destroy_read_struct(&png_, &info_, nullptr);
}

bool PngReader::read_header() {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  passes_ = set_up(png_, info_);
  return true;
}

bool PngReader::read_rows(std::uint8_t* pixels) {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  read_passes(png_, info_, passes_, pixels);
  return true;
}

void PngReader::take(png_structp png, png_bytep to, std::size_t bytes) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (bytes > reader.rest_.size()) png_error(png, "the file ends too early");
  std::memcpy(to, reader.rest_.data(), bytes);
  reader.rest_.remove_prefix(bytes);
}

void PngReader::fail(png_structp png, png_const_charp message) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader.message_.data(), reader.message_.size(), "%s", message);
  png_longjmp(png, 1);
}

}  // namespace zero
