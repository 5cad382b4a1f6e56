// for_each_bert_word(): a text as the words that BERT's tokenizers look up in a WordPiece vocabulary, cased or uncased.
//
//   for_each_bert_word("Café-bar", /*lower_case=*/true, [](std::string_view word, std::size_t) { ...; return true; });
//   // "cafe", "-", "bar"
//
// As transformers 5 has it (BertTokenizer): control, format and private characters and U+FFFD are dropped; a word ends at
// Unicode's spaces; each punctuation mark (Unicode's categories P, and ASCII's symbols) and each ideograph of Chinese is a
// word of its own. With lower_case a text is decomposed first (Unicode's NFD), loses its nonspacing marks, and gets small
// letters: "É" is "e", "ß" stays, a Korean syllable becomes its letters. So "≠" is "=" then, a mark. Without, characters
// stay as they are, composed or not.
//
// Bytes that are no UTF-8 are dropped. Two marks that are not nonspacing keep their order (musical notation has such);
// NFD sorts them. Classes of characters are those of the utf8proc that is installed. Local.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace zero {

// A word in UTF-8, valid during the call, and its number of characters, after decomposition. False: enough words.
using TakeBertWord = std::function<bool(std::string_view word, std::size_t characters)>;

void for_each_bert_word(std::string_view text, bool lower_case, const TakeBertWord& take);

// Is there a capital letter, Latin, Greek, Cyrillic or Armenian? Others had no small letters when vocabularies were made
// (Cherokee's), or have none ("ℝ").
bool has_capital(std::string_view text);
// Is there an accent, or another nonspacing mark, that lower_case takes off?
bool has_accent(std::string_view text);

}  // namespace zero
