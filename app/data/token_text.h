// TokenText: what tokens look like to people, and what a prompt is as tokens.
//
//   TokenText text = TokenText::of(DataKind::kTokens, "gpt2");   // a tokenizer's folder
//   text.show(1462)            // "to": perhaps a part of a character, so that only all of them together are a text
//   text.read("to be")         // {1462, 307}
//
// Bytes are their own tokens; tokens without a tokenizer are shown as numbers, and read from numbers. Immutable. Local.
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
  // Throws ConfigError under "--prompt" for text where tokens are numbers.
  std::vector<std::int64_t> read(std::string_view prompt) const;
  // Tokens of the tokenizer; 0: there is none.
  std::int64_t tokenizer_size() const { return tokenizer_ ? tokenizer_->size() : 0; }
  // Are tokens text?
  bool is_text() const { return is_bytes_ || tokenizer_.has_value(); }

 private:
  bool is_bytes_ = false;
  std::optional<BytePairTokenizer> tokenizer_;
};

}  // namespace zero
