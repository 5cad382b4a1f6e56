// CharacterPieces: how tokenizers of SentencePiece's form (Llama 2's) see a text: as characters in which "▁" stands for a
// space, and as bytes where a character is no token.
//
//   pieces.normal("to be", true)                    // "▁to▁be"
//   pieces.split("▁to▁be", [](std::string_view piece) { ... });   // "▁to", "▁be", if no token has a "▁" in its middle
//
// Such a tokenizer joins pairs over a whole text. A cut between two characters changes nothing where no merge joins tokens
// that end and begin with them; split() cuts there, so that pieces are short, and most of them are there many times.
// Local.
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

  // Tokens that end as `left` does and begin as `right` does may be joined.
  void add_merge(std::string_view left, std::string_view right);

  // The text with "▁" for each space, and one more in front of a text that begins here.
  static std::string normal(std::string_view text, bool begins);
  // The other way, of a token.
  static std::string text_of(std::string_view token);

  void split(std::string_view normal, const std::function<void(std::string_view)>& take) const;
  // May a text be cut before byte `at`, so that its parts have the tokens of the whole?
  bool may_cut(std::string_view normal, std::size_t at) const;

  // Bytes of the character at `at`; 1 for what is no UTF-8.
  static std::size_t character_bytes(std::string_view text, std::size_t at);

 private:
  std::unordered_set<std::uint64_t> joined_;  // last character of the left token, first one of the right
};

}  // namespace zero
