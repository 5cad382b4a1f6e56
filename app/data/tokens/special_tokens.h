// SpecialTokens: the tokens that a tokenizer adds, found in a text by their names, as Hugging Face's tokenizers find them.
//
//   SpecialTokens tokens;
//   tokens.add({.name = "<|endoftext|>", .number = 50256});
//   tokens.split("one<|endoftext|>two", take_text, take_token);    // take_text("one"), take_token(50256), take_text("two")
//
// The first name of a text counts, of those that begin together the longest. A token of single_word counts only between
// characters that are no letters, digits or marks; lstrip and rstrip take the white space before and after it. Which
// characters those are, Unicode says. Immutable after the last add(): any number of threads may split. Local.
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
  // A token of the same name replaces the one before.
  void add(SpecialToken token);
  bool empty() const { return tokens_.empty(); }

  // Calls them in the order of the text; texts are not empty.
  void split(std::string_view text, const std::function<void(std::string_view)>& take_text,
             const std::function<void(std::int64_t)>& take_token) const;

  // Do the parts [0, at) and [at, end) have the tokens that the whole has? `at` is before white space. False also if the
  // text ends too early to say so.
  bool may_cut(std::string_view text, std::size_t at) const;
  // Does a name end at `at`?
  bool ends_at(std::string_view text, std::size_t at) const;

 private:
  // The longest one whose name begins at `at`; null: none.
  const SpecialToken* begins_at(std::string_view text, std::size_t at) const;
  bool is_within(std::string_view text, std::size_t at) const;

  std::vector<SpecialToken> tokens_;     // longest names first
  std::array<bool, 256> first_bytes_{};  // of names
  std::size_t longest_ = 0;              // bytes of a name
};

}  // namespace zero
