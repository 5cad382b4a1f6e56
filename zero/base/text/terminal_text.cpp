#include "zero/base/text/terminal_text.h"

#include <algorithm>

namespace zero {
namespace {

constexpr std::string_view kCutMark = "...";

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

}  // namespace

std::size_t terminal_columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string terminal_text(std::string_view text, std::size_t columns) {
  std::string line;
  std::size_t width = 0, cut = 0;  // `cut`: the end of the line if the text is too wide
  for (const char byte : text) {
    if (begins_character(byte)) {
      if (width + kCutMark.size() == columns) cut = line.size();
      if (width == columns) return line.substr(0, cut).append(kCutMark);
      ++width;
    }
    const auto code = static_cast<unsigned char>(byte);
    if (code >= 0x80 && code < 0xA0 && line.ends_with('\xC2'))  // U+009B begins a terminal command
      line.back() = ' ';
    else
      line += code < 0x20 || code == 0x7F ? ' ' : byte;
  }
  return line;
}

std::string terminal_text(std::string_view text) {
  return terminal_text(text, text.size() + kCutMark.size());
}

}  // namespace zero
