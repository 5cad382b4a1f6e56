// to_alphabet(): the byte alphabet of GPT-2: a printable character for each byte, in vocab.json and merges.txt.
//
//   to_alphabet(" the")        // "Ġthe", in UTF-8
//   from_alphabet("Ġthe")      // " the"; empty if a character is not in the alphabet
//
// The code points of bytes 33-126, 161-172 and 174-255 equal the bytes. The other bytes have the code points from 256,
// in order. Local.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zero {

std::string to_alphabet(std::string_view bytes);
std::optional<std::string> from_alphabet(std::string_view characters);

}  // namespace zero
