#include "app/data/texts/labelled_texts.h"

#include <algorithm>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

LabelledTexts parse(std::string_view bytes) {
  return parse_tsv(bytes, "data.path", "dev.tsv");
}

std::string refusal(std::string_view bytes) {
  return message_of<ConfigError>([&] { parse(bytes); });
}

TEST(Tsv, ReadsTextsAndClassesLikeGlue) {
  const LabelledTexts texts = parse("sentence\tlabel\nit 's a charming journey . \t1\r\nunflinchingly bleak \t0\n");
  EXPECT_EQ(texts.texts, (std::vector<std::string>{"it 's a charming journey . ", "unflinchingly bleak "}));
  EXPECT_EQ(texts.labels, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(texts.lines, (std::vector<std::int64_t>{2, 3}));
}

TEST(Tsv, ColumnsAreFoundByTheirNames) {
  const LabelledTexts texts = parse("index\tlabel\tsentence\n0\t2\tfine\n\n1\t0\tbad\n");
  EXPECT_EQ(texts.texts, (std::vector<std::string>{"fine", "bad"}));
  EXPECT_EQ(texts.labels, (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(texts.lines.back(), 4);
}

TEST(Tsv, MalformedLineIsNamed) {
  EXPECT_TRUE(says(refusal("a\tlabel\nx\t1\n"), "dev.tsv:1: no column is called 'sentence'"));
  EXPECT_TRUE(says(refusal("sentence\tlabel\nx\t1\ny\n"), "dev.tsv:3: has 1 column; the first line has 2"));
  EXPECT_TRUE(says(refusal("sentence\tlabel\nx\ty\t1\n"), "dev.tsv:2: has 3 columns"));
  for (const char* const label : {"", "-1", "1.5", "nan", "99999999999999999999"})
    EXPECT_TRUE(says(refusal(std::string("sentence\tlabel\nx\t") + label + "\n"), "dev.tsv:2: column 2 (label): '"))
        << label;
  EXPECT_TRUE(says(refusal("sentence\tlabel\nx\t-1\n"), "'-1' is not a class"));
  EXPECT_TRUE(says(refusal("sentence\tlabel\n"), "holds no text"));
  EXPECT_TRUE(says(refusal(""), "holds no text"));
}

TEST(Tsv, WordsAreClassesInByteOrder) {
  const LabelledTexts texts = parse("sentence\tlabel\na\tpositive\nb\tnegative\nc\t positive \nd\tPositive\n");
  EXPECT_EQ(texts.classes, (std::vector<std::string>{"Positive", "negative", "positive"}));
  EXPECT_EQ(texts.labels, (std::vector<std::int64_t>{2, 1, 2, 0}));
}

TEST(Tsv, NamesOfClassesGiveTheirOrder) {
  const TextColumns columns{.labels = {.names = {"neutral", "good", "bad"}}};
  const auto labels = [&](std::string_view rows) {
    return parse_tsv("sentence\tlabel\n" + std::string(rows), "data.path", "dev.tsv", columns).labels;
  };
  EXPECT_EQ(labels("a\tbad\nb\tneutral\n"), (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(labels("a\t1\nb\t2\n"), (std::vector<std::int64_t>{1, 2})) << "numbers of named classes";
  const auto refused = [&](std::string_view rows) { return message_of<ConfigError>([&] { labels(rows); }); };
  EXPECT_TRUE(says(refused("a\tbad\nb\tfine\n"),
                   "dev.tsv:3: column 2 (label): the label 'fine' is none of data.labels: neutral, good, bad"));
  EXPECT_TRUE(says(refused("a\t3\n"), "the label '3' is none of data.labels"));
  EXPECT_TRUE(
      says(refused("a\tbad\nb\t1\n"), "the label '1' is a number, and 'bad' is a word (dev.tsv:2: column 2 (label))"));
}

TEST(Tsv, WordsAndNumbersDoNotMix) {
  EXPECT_TRUE(
      says(refusal("sentence\tlabel\nx\t1\ny\tone\n"), "dev.tsv:3: column 2 (label): the label 'one' is a word"));
  std::string many = "sentence\tlabel\n";
  for (int i = 0; i < 1001; ++i) many += "x\tword" + std::to_string(i) + "\n";
  EXPECT_TRUE(says(refusal(many), "dev.tsv:1002: column 2 (label): the labels are more than 1,000 different words"));
}

TEST(Tsv, OtherColumnsAreNamed) {
  const TextColumns columns{.text = "review", .label = "1"};
  const auto texts = parse_tsv("mood\tid\treview\ngood\t7\tfine film\n", "data.path", "dev.tsv", columns);
  EXPECT_EQ(texts.texts, (std::vector<std::string>{"fine film"}));
  EXPECT_EQ(texts.classes, (std::vector<std::string>{"good"}));
  EXPECT_TRUE(says(message_of<ConfigError>([&] { parse_tsv("a\tb\nx\t1\n", "data.path", "dev.tsv", columns); }),
                   "data.text_column = review: no column of dev.tsv has this name\n  its columns are a, b"));
  EXPECT_TRUE(
      says(refusal("text\tlabel\nx\t1\n"), "the first line names the columns: text, label; data.text_column = NAME"));
}

TEST(CsvTexts, AreReadWithTheirQuotes) {
  const TextColumns columns{.text = "text", .label = "label"};
  const auto texts = parse_csv_texts(
      "\xef\xbb\xbftext,label\r\n\"It said \"\"no\"\", twice,\nand left\",negative\r\nfine, positive\r\n", "data.path",
      "t.csv", columns);
  EXPECT_EQ(texts.texts, (std::vector<std::string>{"It said \"no\", twice,\nand left", "fine"}));
  EXPECT_EQ(texts.classes, (std::vector<std::string>{"negative", "positive"}));
  EXPECT_EQ(texts.lines, (std::vector<std::int64_t>{2, 4}));
}

std::multiset<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::multiset<std::string> words;
  for (std::string word; in >> word;) words.insert(word);
  return words;
}

constexpr std::string_view kPlay =
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak speak speak speak speak\n"
    "You are all resolved rather to die than to famish?\n";

// A line gives two texts: the line, and its words in another order.
TEST(WordOrder, EachLineGivesShuffledWords) {
  const LabelledTexts texts = make_word_order_texts(kPlay, 1337, "data.path", "play.txt");
  ASSERT_EQ(texts.size(), 4) << "'Speak' five times has one order only";
  EXPECT_EQ(texts.texts[0], "before we proceed any further , hear me speak .");
  EXPECT_EQ(texts.labels, (std::vector<std::int64_t>{1, 0, 1, 0}));
  EXPECT_EQ(texts.lines, (std::vector<std::int64_t>{2, 2, 6, 6}));
  for (const std::size_t line : {0u, 2u}) {
    EXPECT_NE(texts.texts[line], texts.texts[line + 1]);
    EXPECT_EQ(words_of(texts.texts[line]), words_of(texts.texts[line + 1]));
  }
}

TEST(WordOrder, DependsOnSeedAndTextAlone) {
  const auto made = [](std::uint64_t seed) { return make_word_order_texts(kPlay, seed, "data.path", "x").texts; };
  EXPECT_EQ(made(1), made(1));
  EXPECT_NE(made(1), made(2));
}

TEST(WordOrder, LowersWordsAndSplitsMarks) {
  const LabelledTexts texts = make_word_order_texts("'Tis I'll - naïve WELL, 1594; o'er me.\n", 1, "data.path", "x");
  EXPECT_EQ(texts.texts[0], "' tis i'll - naïve well , 1594 ; o'er me .");
}

TEST(WordOrder, RefusesTextOfShortLines) {
  EXPECT_TRUE(says(message_of<ConfigError>([] { make_word_order_texts("one two\n", 1, "data.path", "x"); }),
                   "no line has 5 words"));
}

}  // namespace
}  // namespace zero
