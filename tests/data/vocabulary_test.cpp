#include "zero/data/vocabulary.h"

#include <gtest/gtest.h>

#include "zero/base/error.h"

#include "tests/message_of.h"

namespace zero {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(LearnedVocabulary, HasTheMostFrequentWordsFirst) {
  const std::vector<std::string> texts{"to be or not to be", "To sleep to dream", "or not"};
  const Vocabulary words = Vocabulary::learn(texts, 7);
  EXPECT_EQ(words.size(), 7);
  EXPECT_EQ(words.piece(3), "to") << "four times, once with a capital";
  EXPECT_EQ(words.piece(4), "be") << "twice, and first in the alphabet of those";
  EXPECT_EQ(words.piece(5), "not");
  EXPECT_EQ(words.piece(6), "or");
  EXPECT_EQ(words.encode("to dream or NOT", 7), (Numbers{2, 3, 1, 6, 5, 0, 0})) << "dream is [UNK]";
}

TEST(LearnedVocabulary, ALongTextIsCutOff) {
  const std::vector<std::string> texts{"a b c d e f"};
  EXPECT_EQ(Vocabulary::learn(texts, 100).encode("a b c d e f", 4), (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(Vocabulary::learn(texts, 100).size(), 9) << "no more than there are";
  EXPECT_TRUE(says(message_of<ConfigError>([&] { Vocabulary::learn(texts, 3); }), "data.words"));
}

constexpr std::string_view kPieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\naffable\n,\n's\n'\ns\nit\n";

Vocabulary pieces() {
  return Vocabulary::parse(kPieces, "data.vocab", "vocab.txt");
}

TEST(WordPiece, TakesTheLongestPieceAgainAndAgain) {
  EXPECT_EQ(pieces().encode("unaffable", 6), (Numbers{2, 4, 5, 6, 3, 0}));
  EXPECT_EQ(pieces().encode("Affable", 4), (Numbers{2, 7, 3, 0}));
}

TEST(WordPiece, AWordThatNoPiecesMakeIsUnknownAsAWhole) {
  EXPECT_EQ(pieces().encode("unknown it", 5), (Numbers{2, 1, 12, 3, 0}));
  EXPECT_EQ(pieces().encode(std::string(101, 'u'), 3), (Numbers{2, 1, 3}));
}

TEST(WordPiece, MarksStandAlone) {
  EXPECT_EQ(pieces().encode("it's,it", 7), (Numbers{2, 12, 10, 11, 8, 12, 3}));
}

TEST(WordPiece, ALongTextEndsWithSepAllTheSame) {
  EXPECT_EQ(pieces().encode("it it it it", 4), (Numbers{2, 12, 12, 3}));
  EXPECT_EQ(pieces().encode("unaffable it", 4), (Numbers{2, 4, 5, 3}));
}

TEST(WordPiece, AVocabularyThatLacksOrRepeatsAPieceIsRefused) {
  const auto refused = [](std::string_view bytes) {
    return message_of<ConfigError>([&] { Vocabulary::parse(bytes, "data.vocab", "vocab.txt"); });
  };
  EXPECT_TRUE(says(refused("[PAD]\n[UNK]\n[CLS]\na\n"), "vocab.txt: has no line [SEP]"));
  EXPECT_TRUE(says(refused("[PAD]\na\nb\na\n"), "vocab.txt:4: 'a' stands in line 2, too"));
}

}  // namespace
}  // namespace zero
