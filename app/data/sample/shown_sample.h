// shown_picture(), shown_class(): a picture and the name of a class as a terminal shows them, in plain characters.
//
//   shown_picture(digit, 60)                              // a digit of 28 x 28 pixels: 14 columns, at most 7 lines
//   shown_class(std::vector<std::string>{"daisy"}, 0)     // "daisy"; of a class without a name its number
//
// Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "app/data/sample/picture.h"

namespace zero {

// At most 8 lines of at most `columns` characters, without a line break behind the last. The brighter a part of the
// picture, the denser its character, from its darkest part, a space, to its brightest, '@'. Lines of spaces above and below
// are left out: a black picture is "".
std::string shown_picture(const Picture& picture, std::size_t columns);

// At most 24 columns.
std::string shown_class(std::span<const std::string> names, std::int64_t number);

}  // namespace zero
