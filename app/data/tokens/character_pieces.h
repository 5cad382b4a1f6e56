// CharacterPieces: prepares a text for tokenizers of SentencePiece's form (Llama 2).
//
//   pieces.normal("to be", true)                    // "▁to▁be"
//   pieces.split("▁to▁be", [](std::string_view piece) { ... });   // "▁to", "▁be", if no token has a "▁" in its middle
//
// Such a text has "▁" for each space. The tokenizer joins pairs over the whole text. A cut between two characters
// changes no token if no merge joins tokens that end and begin with these characters. split() cuts there. Pieces are
// then short, and most pieces occur many times. Local.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>

namespace zero {

class CharacterPieces {
 public:
  static constexpr std::string_view kSpace = "\xE2\x96\x81";  // "▁", U+2581

  // Adds a merge. Texts are then not cut between the last character of `left` and the first of `right`.
  void add_merge(std::string_view left, std::string_view right);

  // Returns the text with "▁" for each space. If `begins`, one more "▁" is put in front.
  static std::string normal(std::string_view text, bool begins);
  // Returns a token's text, with a space for each "▁".
  static std::string text_of(std::string_view token);

  void split(std::string_view normal, const std::function<void(std::string_view)>& take) const;
  // Do both parts have the tokens of the whole if a text is cut before byte `at`?
  bool may_cut(std::string_view normal, std::size_t at) const;

  // Returns the number of bytes of the character at `at`; 1 for a byte that is not UTF-8.
  static std::size_t character_bytes(std::string_view text, std::size_t at);

 private:
  std::unordered_set<std::uint64_t> joined_;  // last character of a left token, first character of a right token
};

}  // namespace zero
