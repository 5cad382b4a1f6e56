// BytePairTokenizer: converts a text to tokens and back by byte-pair encoding (arXiv:1508.07909).
//
//   auto gpt2 = BytePairTokenizer::read("gpt2", "data.tokenizer");    // a folder
//   gpt2.encode("to be, or not")
//   gpt2.decode({1462, 307})                                          // "to be"
//
// As in GPT-2, a text is cut into pieces (TextSplitter), and each piece into bytes. Then the pair of neighbours whose
// merge is first in the list of merges is joined, until no merge is left. A tokenizer.json must have a BPE model over
// bytes, as GPT-2 and Llama 3 have, or Llama 2's form. That form begins with characters (character_pieces.h); a
// character that is no token becomes tokens for its bytes, such as "<0x0A>". Added tokens ("<|endoftext|>", "</s>")
// have a name. Names in a text become tokens (special_tokens.h), unless Specials::kText is given; with vocab.json only
// <|endoftext|> does.
//
// Immutable: any number of threads may encode. Local.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "app/data/tokens/character_pieces.h"
#include "app/data/tokens/special_tokens.h"
#include "app/data/tokens/text_splitter.h"

namespace zero {

// The meaning of an added token's name in a text. kTokens: that token. kText: ordinary text.
enum class Specials { kTokens, kText };

class BytePairTokenizer {
 public:
  // Reads a folder with tokenizer.json or, if it has none, vocab.json and merges.txt. Throws ConfigError(key) if files
  // are missing, are no such tokenizer, or have a merge with an unknown token.
  static BytePairTokenizer read(const std::filesystem::path& folder, std::string_view key,
                                Specials specials = Specials::kTokens);
  // Returns the file in `folder` that has the tokens: tokenizer.json or, if there is none, vocab.json.
  static std::filesystem::path file_of(const std::filesystem::path& folder);
  // Learns a tokenizer of at most `size` tokens, 256 or more. The bytes come first, then joined pairs: the most
  // frequent first, and of equally frequent pairs, the lowest numbers first. There are fewer tokens if no pair is left
  // that occurs twice. Throws ConfigError under "--size".
  static BytePairTokenizer learn(std::string_view text, std::int64_t size);
  // Writes vocab.json and merges.txt, GPT-2's files. Throws IoError. Throws ConfigError under "--learn" if the folder
  // has a tokenizer.json, because read() would read that file.
  void write(const std::filesystem::path& folder) const;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::vector<std::int64_t> encode(std::string_view text) const;
  // Appends the tokens of a part of a text to `out`. `begins`: is it the first part? Cut parts only where may_cut() is
  // true.
  void encode(std::string_view text, std::vector<std::int64_t>& out, bool begins = true) const;
  // May a text be cut at `at`, so its parts have the tokens of the whole? True only for places that are certain. Over
  // bytes these are after a letter or digit, and before white space or punctuation (TextSplitter::may_cut). With Llama
  // 2's form they are only before a line end. `at` must be less than the size of the text.
  bool may_cut(std::string_view text, std::size_t at) const;
  // Converts tokens to a text. Numbers that are no token, and added tokens that tokenizer.json calls special, give no
  // text. Bytes that are not UTF-8 are not changed.
  std::string decode(std::span<const std::int64_t> tokens) const;
  // Returns the text of a token within a text. A token of Llama 2's form may begin with a space, which decode() removes
  // from the first token.
  std::string text_of(std::int64_t token) const;
  // Returns the number of an added token, such as "<|endoftext|>"; empty: there is no such token.
  std::optional<std::int64_t> added(std::string_view name) const;
  // Counts the added tokens among `tokens`.
  std::int64_t count_added(std::span<const std::int64_t> tokens) const;

 private:
  struct Merge {
    std::int64_t rank = 0;  // position in the list of merges; lower ranks are joined first
    std::int64_t joined = 0;
  };
  struct PairHash {
    std::size_t operator()(const std::pair<std::int64_t, std::int64_t>& pair) const {
      return static_cast<std::size_t>(pair.first * 0x9E3779B97F4A7C15LL + pair.second);
    }
  };
  class Reader;

  BytePairTokenizer() : splitter_(TextSplitter::kGpt2) {}
  // Data for Llama 2's form, whose tokens are made of characters, with "▁" for a space.
  struct Characters {
    CharacterPieces pieces;
    std::array<std::int64_t, 256> bytes{};  // numbers of "<0x00>" to "<0xFF>"
  };

  // Returns the tokens of a piece before any are joined.
  std::vector<std::int64_t> symbols_of(std::string_view piece) const;
  void encode_piece(std::string_view piece, std::vector<std::int64_t>& out) const;

  SpecialTokens specials_;         // searched in the text itself
  SpecialTokens normal_specials_;  // searched in the normalized text, which has "▁" for spaces in Llama 2's form
  TextSplitter splitter_;
  std::optional<Characters> characters_;  // only for Llama 2's form; empty: tokens are made of bytes
  bool whole_pieces_first_ = false;       // are pieces looked up as tokens before they are merged? (Llama 3)
  std::vector<std::string> tokens_;       // bytes of each token; empty: a special token, or no token has this number
  std::unordered_map<std::string, std::int64_t> numbers_;
  std::vector<std::pair<std::int64_t, std::int64_t>> merge_order_;
  std::unordered_map<std::pair<std::int64_t, std::int64_t>, Merge, PairHash> merges_;
  std::map<std::string, std::int64_t, std::less<>> added_;
  std::vector<bool> is_added_;  // by number: is it an added token?
};

// to_alphabet(), from_alphabet(): the byte alphabet of GPT-2, a printable character for each byte, in vocab.json and
// merges.txt.
//
//   to_alphabet(" the")        // "Ġthe", in UTF-8
//   from_alphabet("Ġthe")      // " the"; empty if a character is not in the alphabet
//
// The code points of bytes 33-126, 161-172 and 174-255 equal the bytes. The other bytes have the code points from 256,
// in order. byte_alphabet.cpp defines both functions. Local.
std::string to_alphabet(std::string_view bytes);
std::optional<std::string> from_alphabet(std::string_view characters);

}  // namespace zero
