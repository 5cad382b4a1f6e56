// for_each_bert_word(): cuts a text into the words that BERT's tokenizers look up in a WordPiece vocabulary.
//
//   for_each_bert_word("Café-bar", /*lower_case=*/true, [](std::string_view word, std::size_t) { ...; return true; });
//   // "cafe", "-", "bar"
//
// Words are those of transformers 5 (BertTokenizer). Control, format and private characters, U+FFFD and bytes that are
// not UTF-8 are dropped. A word ends at Unicode's spaces. Each punctuation mark (Unicode's categories P, and ASCII's
// symbols) and each Chinese ideograph is a word. Without lower_case, characters are not changed. Categories are those
// of the installed utf8proc.
//
// With lower_case a text is decomposed (Unicode's NFD), loses its nonspacing marks, and becomes lower-case. Examples:
// "É" is "e", "ß" stays, "≠" is "=", and a Korean syllable becomes its letters. Marks that are not nonspacing (as in
// musical notation) keep their order, but NFD would sort them. Local.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace zero {

// Receives a word in UTF-8, valid during the call, and its number of characters after decomposition. Returns false to
// stop.
using TakeBertWord = std::function<bool(std::string_view word, std::size_t characters)>;

void for_each_bert_word(std::string_view text, bool lower_case, const TakeBertWord& take);

// Is there a Latin, Greek, Cyrillic or Armenian capital letter? Other capitals had no lower-case letters when
// vocabularies were made (Cherokee), or have none ("ℝ").
bool has_capital(std::string_view text);
// Is there an accent or another nonspacing mark, which lower_case removes?
bool has_accent(std::string_view text);

}  // namespace zero
