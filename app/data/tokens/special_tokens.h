// SpecialTokens: finds the names of added tokens in a text, as Hugging Face's tokenizers do.
//
//   SpecialTokens tokens;
//   tokens.add({.name = "<|endoftext|>", .number = 50256});
//   tokens.split("a<|endoftext|>b", take_text, take_token);    // take_text("a"), take_token(50256), take_text("b")
//
// The first name in a text is found first; of names that begin at the same byte, the longest. A single_word token is
// found only between characters that are not letters, digits or marks. lstrip and rstrip remove the white space before
// and after a token. Unicode defines these classes of characters.
//
// Immutable after the last add(): any number of threads may split. Local.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

struct SpecialToken {
  std::string name;  // not empty
  std::int64_t number = 0;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
};

class SpecialTokens {
 public:
  // Adds a token, in place of a token of the same name.
  void add(SpecialToken token);
  bool empty() const { return tokens_.empty(); }

  // Calls both functions in the order of the text. Texts are not empty.
  void split(std::string_view text, const std::function<void(std::string_view)>& take_text,
             const std::function<void(std::int64_t)>& take_token) const;

  // Do the parts [0, at) and [at, end) have the tokens of the whole? `at` must be before white space or punctuation.
  // Also false if the text ends too early to be certain.
  bool may_cut(std::string_view text, std::size_t at) const;
  // Does a name end at `at`?
  bool ends_at(std::string_view text, std::size_t at) const;

 private:
  // Returns the token with the longest name that begins at `at`; null: there is none.
  const SpecialToken* begins_at(std::string_view text, std::size_t at) const;
  // Does a name that begins at `at` or before reach beyond `at`? The text may end within the name. A name that begins
  // at `at` counts, because it could be a single word at the begin of a part.
  bool reaches(std::string_view text, std::size_t at) const;

  std::vector<SpecialToken> tokens_;     // longest names first
  std::array<bool, 256> first_bytes_{};  // does a name begin with this byte?
  std::size_t longest_ = 0;              // bytes of the longest name
};

}  // namespace zero
