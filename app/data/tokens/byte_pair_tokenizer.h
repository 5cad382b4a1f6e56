// BytePairTokenizer: from a text to tokens and back, by byte-pair encoding (Sennrich et al., arXiv:1508.07909) over bytes
// (GPT-2's; Radford et al., 2019).
//
//   auto gpt2 = BytePairTokenizer::read("gpt2", "data.tokenizer");    // a folder with tokenizer.json, or else with
//   gpt2.encode("to be, or not")                                      // vocab.json and merges.txt
//   gpt2.decode({1462, 307})                                          // "to be"
//   BytePairTokenizer::learn(text, 1000).write("runs/tokenizer");     // GPT-2's two files
//
// A text is cut into pieces (TextSplitter), each piece into bytes, and neighbours are joined: again and again the pair
// that comes first among the merges. Of tokenizer.json the models BPE over bytes are taken: GPT-2's, Llama 3's and their
// like; and Llama 2's, which begins with characters (character_pieces.h) and has a token for each byte, "<0x0A>", for those
// that are no token. Tokens that a tokenizer adds ("<|endoftext|>", "</s>") are numbers with a name. Their names in a text
// become them (special_tokens.h), unless the reader says Specials::kText; beside vocab.json only <|endoftext|> does.
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

// What the name of an added token is in a text: that token, or text like any other.
enum class Specials { kTokens, kText };

class BytePairTokenizer {
 public:
  // Throws ConfigError(key) for files that are missing, are no such tokenizer, or in which a merge names an unknown token.
  static BytePairTokenizer read(const std::filesystem::path& folder, std::string_view key,
                                Specials specials = Specials::kTokens);
  // The file in `folder` that says how many tokens there are: tokenizer.json, or else vocab.json.
  static std::filesystem::path file_of(const std::filesystem::path& folder);
  // At most `size` tokens, from 256 up: the bytes, then each joined pair, the most frequent first; of those as frequent
  // as each other, the lower numbers first. Fewer where the text has no pair left that is there twice. Throws ConfigError
  // under "--size".
  static BytePairTokenizer learn(std::string_view text, std::int64_t size);
  // vocab.json and merges.txt. Throws IoError, and ConfigError under "--learn" where a tokenizer.json is in the folder, which
  // read() would take in their place.
  void write(const std::filesystem::path& folder) const;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::vector<std::int64_t> encode(std::string_view text) const;
  // Appended; for a text in many parts, of which the first one `begins` it, each cut where may_cut() allows it.
  void encode(std::string_view text, std::vector<std::int64_t>& out, bool begins = true) const;
  // Does the part [0, at) have the tokens that the whole has there? `at` is before the end of a line.
  bool may_cut(std::string_view text, std::size_t at) const;
  // Numbers that are no token give nothing, as do added tokens that tokenizer.json calls special. Bytes that are no UTF-8 stay as they are.
  std::string decode(std::span<const std::int64_t> tokens) const;
  // Of a token within a text: Llama 2's has a space in front that decode() takes from the first one.
  std::string text_of(std::int64_t token) const;
  // The number of a token that the tokenizer added, such as "<|endoftext|>".
  std::optional<std::int64_t> added(std::string_view name) const;
  // How many of these tokens the tokenizer added.
  std::int64_t count_added(std::span<const std::int64_t> tokens) const;

 private:
  struct Merge {
    std::int64_t rank = 0;  // lower ones are joined first
    std::int64_t joined = 0;
  };
  struct PairHash {
    std::size_t operator()(const std::pair<std::int64_t, std::int64_t>& pair) const {
      return static_cast<std::size_t>(pair.first * 0x9E3779B97F4A7C15LL + pair.second);
    }
  };
  class Reader;

  BytePairTokenizer() : splitter_(TextSplitter::kGpt2) {}
  // Llama 2's form. Tokens are characters, with "▁" for a space.
  struct Characters {
    CharacterPieces pieces;
    std::array<std::int64_t, 256> bytes{};  // numbers of "<0x00>" to "<0xFF>"
  };

  // The tokens with which a piece begins, before any are joined.
  std::vector<std::int64_t> symbols_of(std::string_view piece) const;
  void encode_piece(std::string_view piece, std::vector<std::int64_t>& out) const;

  SpecialTokens specials_;         // found in a text as it is
  SpecialTokens normal_specials_;  // found in the normalized text: "▁" for spaces of Llama 2's form
  TextSplitter splitter_;
  std::optional<Characters> characters_;  // nothing: tokens are bytes, cut by splitter_
  bool whole_pieces_first_ = false;       // a piece that is a token needs no merges: Llama 3
  std::vector<std::string> tokens_;       // their bytes; of added ones, and of numbers without a token, nothing
  std::unordered_map<std::string, std::int64_t> numbers_;
  std::vector<std::pair<std::int64_t, std::int64_t>> merge_order_;
  std::unordered_map<std::pair<std::int64_t, std::int64_t>, Merge, PairHash> merges_;
  std::map<std::string, std::int64_t, std::less<>> added_;
  std::vector<bool> is_added_;  // by number
};

}  // namespace zero
