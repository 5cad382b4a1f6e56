// Any bytes as a table of labelled texts, as a text for the word-order task, and as a WordPiece vocabulary. They are
// refused, or read into equally many labels and texts, and encoded into numbers of the vocabulary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "zero/base/error/error.h"

#include "app/data/texts/labelled_texts.h"
#include "app/data/tokens/vocabulary.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const zero::LabelledTexts& texts, const zero::Vocabulary& vocabulary) {
  require(!texts.texts.empty() && texts.texts.size() == texts.labels.size() &&
          texts.lines.size() == texts.labels.size());
  for (const std::string& text : texts.texts) {
    const auto numbers = vocabulary.encode(text, 8);
    require(numbers.size() == 8);
    for (const std::int64_t number : numbers) require(number >= 0 && number < vocabulary.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const bool is_table : {true, false}) {
    try {
      const zero::LabelledTexts texts = is_table ? zero::parse_tsv(bytes, "data.path", "t.tsv")
                                                 : zero::make_word_order_texts(bytes, 1, "data.path", "t.txt");
      check(texts, zero::Vocabulary::learn(texts.texts, 20));
    } catch (const zero::ConfigError&) {
    }
  }
  try {
    const zero::Vocabulary vocabulary = zero::Vocabulary::parse(bytes, "data.vocab", "vocab.txt");
    check({.path = "", .texts = {std::string(bytes.substr(0, 300))}, .labels = {0}, .lines = {1}}, vocabulary);
  } catch (const zero::ConfigError&) {
  }
  return 0;
}
