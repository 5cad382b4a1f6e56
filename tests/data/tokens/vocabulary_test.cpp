#include "app/data/tokens/vocabulary.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(LearnedVocabulary, HasTheMostFrequentWordsFirst) {
  const std::vector<std::string> texts{"to be or not to be", "To sleep to dream", "or not"};
  const Vocabulary words = Vocabulary::learn(texts, 7);
  EXPECT_EQ(words.size(), 7);
  EXPECT_EQ(words.piece(3), "to") << "four times, once with a capital";
  EXPECT_EQ(words.piece(4), "be") << "twice, and first in alphabetical order";
  EXPECT_EQ(words.piece(5), "not");
  EXPECT_EQ(words.piece(6), "or");
  EXPECT_EQ(words.encode("to dream or NOT", 7), (Numbers{2, 3, 1, 6, 5, 0, 0})) << "dream is [UNK]";
}

TEST(LearnedVocabulary, LinesReadBack) {
  const std::vector<std::string> texts{"b b \xff", "a b"};
  const Vocabulary learned = Vocabulary::learn(texts, 7);
  const Vocabulary read = Vocabulary::of_lines(learned.lines(), "run.dir", "words.txt");
  EXPECT_EQ(read.lines(), "[PAD]\n[UNK]\n[CLS]\nb\na\n\xff\n");
  EXPECT_EQ(read.encode("A \xff b", 5), learned.encode("A \xff b", 5));
  const auto refusal = [](const std::string& lines) {
    return message_of<ConfigError>([&] { Vocabulary::of_lines(lines, "run.dir", "words.txt"); });
  };
  EXPECT_TRUE(says(refusal("[PAD]\n[CLS]\n"), "run.dir = words.txt:2: must be [UNK]"));
  EXPECT_TRUE(says(refusal("[PAD]\n[UNK]\n[CLS]\na\na\n"), "words.txt:5: is a word of an earlier line"));
  EXPECT_TRUE(says(refusal("[PAD]\n[UNK]\n[CLS]\nB\n"), "words.txt:4: is not one word in lower case"));
  EXPECT_TRUE(says(refusal("[PAD]\n[UNK]\n[CLS]\n\n"), "words.txt:4: is not one word in lower case"));
  EXPECT_TRUE(says(refusal("[PAD]\n[UNK]\n[CLS]\n"), "words.txt:4: is missing"));
}

TEST(LearnedVocabulary, ALongTextIsCutOff) {
  const std::vector<std::string> texts{"a b c d e f"};
  EXPECT_EQ(Vocabulary::learn(texts, 100).encode("a b c d e f", 4), (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(Vocabulary::learn(texts, 100).size(), 9) << "at most the number of words";
  EXPECT_TRUE(says(message_of<ConfigError>([&] { Vocabulary::learn(texts, 3); }), "data.words"));
}

constexpr std::string_view kPieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\naffable\n,\n's\n'\ns\nit\n";

Vocabulary pieces() {
  return Vocabulary::parse(kPieces, "data.vocab", "vocab.txt");
}

TEST(WordPiece, TakesTheLongestPieceRepeatedly) {
  EXPECT_EQ(pieces().encode("unaffable", 6), (Numbers{2, 4, 5, 6, 3, 0}));
  EXPECT_EQ(pieces().encode("Affable", 4), (Numbers{2, 7, 3, 0}));
}

TEST(WordPiece, UnmatchedWordIsWhollyUnknown) {
  EXPECT_EQ(pieces().encode("unknown it", 5), (Numbers{2, 1, 12, 3, 0}));
}

TEST(WordPiece, WordOverHundredCharactersIsUnknown) {
  const auto vocabulary = Vocabulary::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\nß\n##ß\n", "data.vocab", "vocab.txt");
  std::string word;
  for (int i = 0; i < 100; ++i) word += "ß";
  EXPECT_EQ(vocabulary.encode(word, 4), (Numbers{2, 4, 5, 3})) << "200 bytes";
  EXPECT_EQ(vocabulary.encode(word + "ß", 4), (Numbers{2, 1, 3, 0}));
}

TEST(WordPiece, MarksStandAlone) {
  EXPECT_EQ(pieces().encode("it's,it", 7), (Numbers{2, 12, 10, 11, 8, 12, 3}));
}

TEST(WordPiece, LongTextStillEndsWithSep) {
  EXPECT_EQ(pieces().encode("it it it it", 4), (Numbers{2, 12, 12, 3}));
  EXPECT_EQ(pieces().encode("unaffable it", 4), (Numbers{2, 4, 5, 3}));
}

TEST(WordPiece, SpecialPiecesInTextStaySpecial) {
  EXPECT_EQ(pieces().encode("it[SEP]it [PAD] [sep]", 10), (Numbers{2, 12, 3, 12, 0, 1, 1, 1, 3, 0}));
  EXPECT_EQ(pieces().encode("[MASK]", 6), (Numbers{2, 1, 1, 1, 3, 0})) << "this vocabulary has no such token";
}

std::string notes_of(const Vocabulary& vocabulary) {
  std::string lines;
  for (const std::string& note : vocabulary.notes()) lines += note + "\n";
  return lines;
}

constexpr std::string_view kCased = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nit\nIt\né\ne\n";

// The capital letters of a text.
TEST(WordPiece, CasedPiecesKeepCapitals) {
  const auto cased = Vocabulary::parse(kCased, "data.vocab", "vocab.txt");
  EXPECT_EQ(cased.encode("It it é É", 6), (Numbers{2, 5, 4, 6, 1, 3}));
  EXPECT_TRUE(says(notes_of(cased), "keep capital letters and accents: 1 of the 8 pieces in vocab.txt"));
  EXPECT_TRUE(
      says(notes_of(pieces()), "lower-cased and lose their accents: no piece in vocab.txt has a capital letter"))
      << "names in brackets do not count";
}

// 199 pieces without capital letters, some in brackets, and `others`.
std::string mostly_small(const std::string& others) {
  std::string bytes = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[Q]\n";
  for (int i = 0; i < 194; ++i) bytes += "p" + std::to_string(i) + "\n";
  return bytes + others;
}

// A few pieces with capitals do not make a cased vocabulary.
TEST(WordPiece, FewCasedPiecesAreNotCased) {
  const auto note = [](const std::string& bytes) { return notes_of(Vocabulary::parse(bytes, "key", "v")); };
  EXPECT_TRUE(says(note(mostly_small("I\n")), "lower-cased and lose their accents: 1 of the 200 pieces in v"));
  EXPECT_TRUE(says(note(mostly_small("I\nIt\n##T\n")), "keep capital letters and accents: 3 of the 202 pieces in v"));
  EXPECT_TRUE(
      says(note(mostly_small("è\n##\u0301\n")), "note: 2 of the 201 pieces in v have an accent, and texts lose"));
  EXPECT_EQ(note(mostly_small("ø\n漢\n")).find("have an accent"), std::string::npos);
}

TEST(WordPiece, CaseOverrideReportsItsCost) {
  const auto lower = Vocabulary::parse(kCased, "data.vocab", "vocab.txt", true);
  EXPECT_EQ(lower.encode("It it é É", 6), (Numbers{2, 4, 4, 7, 7, 3}));
  EXPECT_TRUE(says(notes_of(lower), "data.lower_case is true, and 1 of the 8 pieces"));
  const auto kept = Vocabulary::parse(kPieces, "data.vocab", "vocab.txt", false);
  EXPECT_EQ(kept.encode("It it", 4), (Numbers{2, 1, 12, 3}));
  EXPECT_TRUE(says(notes_of(kept), "data.lower_case is false, and no piece"));
  EXPECT_EQ(notes_of(Vocabulary::parse(kCased, "data.vocab", "vocab.txt", false)), "");
  EXPECT_EQ(notes_of(Vocabulary::parse(kPieces, "data.vocab", "vocab.txt", true)), "");
}

std::string text_of(const nlohmann::json& written) {
  if (written.contains("text")) return written.at("text").get<std::string>();
  std::string text;
  for (const int byte : written.at("bytes")) text += static_cast<char>(byte);
  return text;
}

// tests/data/tokenizer_numbers.py trained these vocabularies and recorded the tokens of transformers' BertTokenizer.
// The texts have composed and decomposed accents, letters without lower case, many scripts, emoji, marks, spaces,
// zero-width characters, and bytes that are not UTF-8.
TEST(WordPiece, MatchesTransformersBertTokenizer) {
  const auto folder = std::filesystem::path(built::kSourceFolder) / "tests/data/hugging_face";
  for (const char* name : {"bert_cased", "bert_uncased"}) {
    const auto vocabulary = Vocabulary::read(folder / name / "vocab.txt", "data.vocab");
    const auto cases = nlohmann::json::parse(std::ifstream(folder / name / "encoded.json"));
    EXPECT_GT(cases.size(), 60U);
    for (const auto& each : cases) {
      const std::string text = text_of(each);
      auto tokens = each.at("tokens").get<Numbers>();
      EXPECT_EQ(vocabulary.encode(text, 6), each.at("six").get<Numbers>()) << name << ": " << text;
      tokens.push_back(vocabulary.pad());
      EXPECT_EQ(vocabulary.encode(text, std::ssize(tokens)), tokens) << name << ": " << text;
    }
  }
}

TEST(WordPiece, RefusesMissingOrRepeatedPieces) {
  const auto refused = [](std::string_view bytes) {
    return message_of<ConfigError>([&] { Vocabulary::parse(bytes, "data.vocab", "vocab.txt"); });
  };
  EXPECT_TRUE(says(refused("[PAD]\n[UNK]\n[CLS]\na\n"), "vocab.txt: has no line [SEP]"));
  EXPECT_TRUE(says(refused("[PAD]\na\nb\na\n"), "vocab.txt:4: 'a' is also in line 2"));
  EXPECT_TRUE(says(refused("[PAD]\n##a\na\n##a\n"), "vocab.txt:4: '##a' is also in line 2"));
}

}  // namespace
}  // namespace zero
