#include "app/data/tokens/bert_words.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

using Words = std::vector<std::string>;

Words bert_words(std::string_view text, bool lower_case) {
  Words words;
  for_each_bert_word(text, lower_case, [&](std::string_view word, std::size_t) {
    words.emplace_back(word);
    return true;
  });
  return words;
}

Words uncased(std::string_view text) {
  return bert_words(text, /*lower_case=*/true);
}

Words cased(std::string_view text) {
  return bert_words(text, /*lower_case=*/false);
}

TEST(BertWords, MarksAndChineseCharactersStandAlone) {
  EXPECT_EQ(cased("It's “so”—a€b"), (Words{"It", "'", "s", "“", "so", "”", "—", "a€b"})) << "€ is a symbol";
  EXPECT_EQ(cased("a+b 漢字kana かな"), (Words{"a", "+", "b", "漢", "字", "kana", "かな"}));
  EXPECT_EQ(cased("a\U0002b820\U0002b91fb"), (Words{"a", "\U0002b820", "\U0002b91f", "b"}))
      << "as BERT, not as tokenizers";
}

TEST(BertWords, LowerCaseTakesAccentsOff) {
  EXPECT_EQ(uncased("CAFÉ Cafe\u0301 İI Straße GROẞE"), (Words{"cafe", "cafe", "ii", "straße", "große"}));
  EXPECT_EQ(cased("CAFÉ Cafe\u0301"), (Words{"CAFÉ", "Cafe\u0301"})) << "neither composed nor taken apart";
  EXPECT_EQ(uncased("한"), Words{"\u1112\u1161\u11ab"});
}

TEST(BertWords, AMarkIsWhatDecompositionLeaves) {
  EXPECT_EQ(uncased("a≠b"), (Words{"a", "=", "b"}));
  EXPECT_EQ(cased("a≠b"), Words{"a≠b"});
}

TEST(BertWords, InvisibleCharactersJoinTheirNeighbours) {
  EXPECT_EQ(cased("a\u200bb\u00ad c\u0007d"), (Words{"ab", "cd"}));
  EXPECT_EQ(cased("a\u00a0b\u3000c\u2028d"), (Words{"a", "b", "c", "d"})) << "spaces do not";
  EXPECT_EQ(cased("a\xff"
                  "b \xe2\x82 c\ufffd"),
            (Words{"ab", "c"}))
      << "bytes that are no UTF-8 are dropped";
  EXPECT_EQ(cased(std::string_view("\0\u200b ", 5)), Words{});
}

TEST(BertWords, CharactersAreCountedAfterDecomposition) {
  std::vector<std::size_t> counts;
  for_each_bert_word("ß漢 é한", /*lower_case=*/true, [&](std::string_view, std::size_t characters) {
    counts.push_back(characters);
    return true;
  });
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 1, 4}));
}

TEST(BertWords, StopsAfterTheLastWantedWord) {
  int words = 0;
  for_each_bert_word("a,b c", /*lower_case=*/true, [&](std::string_view, std::size_t) { return ++words < 2; });
  EXPECT_EQ(words, 2);
}

TEST(BertWords, OldScriptCapitalsHaveLowerCase) {
  for (const std::string_view text : {"aB", "É", "##Σ", "Ж", "Ա"}) EXPECT_TRUE(has_capital(text)) << text;
  for (const std::string_view text : {"ab", "é", "ℝ", "漢", "Ꭰ", "1", "", "\xff"})
    EXPECT_FALSE(has_capital(text)) << text;
}

TEST(BertWords, AccentsAreMarksLowerCaseRemoves) {
  for (const std::string_view text : {"aé", "É", "й", "\u0301"}) EXPECT_TRUE(has_accent(text)) << text;
  for (const std::string_view text : {"ab", "ø", "ß", "ℝ", ""}) EXPECT_FALSE(has_accent(text)) << text;
}

}  // namespace
}  // namespace zero
