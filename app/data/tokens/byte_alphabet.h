// The byte alphabet of GPT-2: a printable character for each byte, in which vocab.json and merges.txt are written.
//
//   to_alphabet(" the")        // "Ġthe", in UTF-8
//   from_alphabet("Ġthe")      // " the"; nothing where a character stands for no byte
//
// Bytes 33-126, 161-172 and 174-255 are themselves, as code points; the others follow from 256 on, in their order.
// Local.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zero {

std::string to_alphabet(std::string_view bytes);
std::optional<std::string> from_alphabet(std::string_view characters);

}  // namespace zero
