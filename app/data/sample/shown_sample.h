// shown_picture(), shown_class(): text of a picture or a class for a terminal, in ASCII characters.
//
//   shown_picture(digit, 60)                              // a digit of 28 x 28 pixels: 14 columns, at most 7 lines
//   shown_class(std::vector<std::string>{"daisy"}, 0)     // "daisy"; or its number, if a class has no name
//
// Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "app/data/sample/picture.h"

namespace zero {

// Returns at most 8 lines of at most `columns` characters, without a line break after the last line. Brighter parts
// have denser characters: the darkest part is a space, the brightest '@'. Lines of spaces above and below the picture
// are left out, so a black picture is "".
std::string shown_picture(const Picture& picture, std::size_t columns);

// Returns the name of a class, or its number, in at most 24 columns.
std::string shown_class(std::span<const std::string> names, std::int64_t number);

}  // namespace zero
