// TokenText: converts tokens to text that people read, and a prompt to tokens.
//
//   TokenText text = TokenText::of(DataKind::kTokens, "gpt2");   // a tokenizer's folder
//   text.show(1462)            // "to"; a token may be a part of a character
//   text.read("to be")         // {1462, 307}
//
// For the kind text, each byte is a token. Without a tokenizer, tokens are shown as numbers and read from numbers.
// Immutable. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/open_data.h"
#include "app/data/tokens/byte_pair_tokenizer.h"

namespace zero {

class TokenText {
 public:
  // `tokenizer` may be empty. Throws as BytePairTokenizer::read() does, under "data.tokenizer".
  static TokenText of(DataKind kind, const std::filesystem::path& tokenizer);

  std::string show(std::int64_t token) const;
  // Converts a prompt to tokens. If tokens are numbers, the prompt must have numbers: text throws ConfigError under
  // "--prompt".
  std::vector<std::int64_t> read(std::string_view prompt) const;
  // Returns the tokenizer's number of tokens; 0: there is no tokenizer.
  std::int64_t tokenizer_size() const { return tokenizer_ ? tokenizer_->size() : 0; }
  // Can tokens be shown as text?
  bool is_text() const { return is_bytes_ || tokenizer_.has_value(); }

 private:
  bool is_bytes_ = false;
  std::optional<BytePairTokenizer> tokenizer_;
};

}  // namespace zero
