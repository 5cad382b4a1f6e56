#include "app/data/open_data.h"

#include <filesystem>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/data/tokens/byte_pair_tokenizer.h"
#include "tests/data/make_files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

std::string refusal(const DataOptions& options) {
  return message_of<ConfigError>([&] { open_data(options); });
}

// The end of the data is held out.
TEST(OpenData, HoldsOutAFraction) {
  const TemporaryFolder folder;
  const auto path = folder.write("input.txt", std::string(80, 'a') + std::string(20, 'b'));
  const Corpus corpus = open_data({.path = path, .validation = 0.2, .context = 4});
  EXPECT_EQ(corpus.train->size(), 80);
  ASSERT_NE(corpus.validation, nullptr);
  EXPECT_EQ(corpus.validation->size(), 20);
  Batch batch;
  corpus.validation->fill(std::vector<std::int64_t>{0}, batch);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(batch.input.values), (std::vector<std::int64_t>(4, 'b')));
}

TEST(OpenData, TokenizerDecidesTheVocabulary) {
  const TemporaryFolder folder;
  BytePairTokenizer::learn("to be or not to be", 256).write(folder.path() / "tokenizer");
  DataOptions options{.kind = DataKind::kTokens,
                      .path = folder.write("t.bin", raw_tokens<std::uint16_t>({1, 2, 3, 4, 5, 6, 7, 8})),
                      .validation = 0.0,
                      .context = 2};
  EXPECT_EQ(open_data(options).shape().classes, 9);
  options.tokenizer = folder.path() / "tokenizer";
  EXPECT_EQ(open_data(options).shape().classes, 256);
  options.path = folder.write("u.bin", raw_tokens<std::uint16_t>({1, 2, 3, 4, 256, 6, 7, 8}));
  EXPECT_TRUE(says(refusal(options), "it has 256 tokens, and token 4 of "));
  options.kind = DataKind::kText;
  EXPECT_TRUE(says(refusal(options), "zero tokenize"));
}

TEST(OpenData, FractionZeroHoldsNothingOut) {
  const TemporaryFolder folder;
  const Corpus corpus = open_data({.path = folder.write("i", std::string(50, 'a')), .validation = 0.0, .context = 4});
  EXPECT_EQ(corpus.train->size(), 50);
  EXPECT_EQ(corpus.validation, nullptr);
}

// nanoGPT's data[:int(n * 0.9)] and data[int(n * 0.9):], and fractions with an integer product.
TEST(OpenData, CutsWhereNanogptCuts) {
  const TemporaryFolder folder;
  for (const auto& [fraction, rows, held] : std::vector<std::tuple<double, int, int>>{
           {0.1, 1'115'394, 111'540}, {0.2, 10'000, 2'000}, {0.3, 10, 3}, {0.9, 10, 9}, {0.1, 30, 3}, {0.5, 3, 2}}) {
    std::string text;
    for (int i = 0; i < rows; ++i) text += "1,2\n";
    const Corpus corpus = open_data({.kind = DataKind::kCsv, .path = folder.write("t", text), .validation = fraction});
    EXPECT_EQ(corpus.validation->size(), held) << fraction << " of " << rows;
    EXPECT_EQ(corpus.train->size(), rows - held);
  }
}

TEST(OpenData, AnotherFileMayBeTheValidation) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.bin", raw_tokens<std::uint16_t>({1, 2, 3, 4, 5, 6, 7, 8}));
  const auto held = folder.write("val.bin", raw_tokens<std::uint16_t>({1, 2, 3, 4, 500, 6}));
  const Corpus corpus = open_data({.kind = DataKind::kTokens, .path = train, .validation = held, .context = 2});
  EXPECT_EQ(corpus.train->size(), 8);
  EXPECT_EQ(corpus.validation->size(), 6);
  EXPECT_EQ(corpus.train->shape().classes, 9);
  EXPECT_EQ(corpus.shape().classes, 501);  // the vocabulary must contain the tokens of both files
}

// Several files are read as one.
TEST(OpenData, HoldsOutTheLastFilesEnd) {
  const TemporaryFolder folder;
  const DataFiles files{{folder.write("a", "aaaaaaaa").string(), folder.write("b", "bbbbbbbb").string()}};
  const Corpus corpus = open_data({.path = files, .validation = 0.25, .context = 2});
  EXPECT_EQ(corpus.train->size(), 12);
  EXPECT_EQ(corpus.validation->size(), 4);
}

TEST(OpenData, OnlyTextAndTokensSpanFiles) {
  const TemporaryFolder folder;
  const DataFiles files{{folder.write("a", "1,2\n").string(), folder.write("b", "3,4\n").string()}};
  EXPECT_TRUE(says(refusal({.kind = DataKind::kCsv, .path = files}),
                   "a and 1 more: only text and tokens can have several files"));
}

TEST(OpenData, ChecksVocabularyInBothSplits) {
  const TemporaryFolder folder;
  const auto train = folder.write("train.bin", raw_tokens<std::uint16_t>({1, 2, 3, 4}));
  const auto held = folder.write("val.bin", raw_tokens<std::uint16_t>({1, 2, 3, 500}));
  const Corpus corpus = open_data({.kind = DataKind::kTokens, .path = train, .validation = held, .context = 2});
  EXPECT_NO_THROW(corpus.require_classes(501, "model.vocab"));
  const auto message = message_of<ConfigError>([&] { corpus.require_classes(500, "model.vocab"); });
  EXPECT_TRUE(says(message, "model.vocab = 500: too small: token 3 of "));
  EXPECT_TRUE(says(message, "val.bin is 500"));
  EXPECT_THROW(corpus.require_classes(4, "model.vocab"), ConfigError);
}

// A class without samples is no mistake. A single label far above the others is one.
TEST(OpenData, BadLabelsNameTheirLine) {
  const TemporaryFolder folder;
  const auto table = [&](const std::string& name, const std::vector<int>& labels) {
    std::string text = "sentence\tlabel\n";
    for (const int label : labels) text += "some words\t" + std::to_string(label) + "\n";
    return folder.write(name, text);
  };
  const auto opened = [](const std::string& path, std::variant<double, DataFiles> validation = 0.0) {
    return DataOptions{.kind = DataKind::kTsv, .path = path, .validation = std::move(validation), .context = 4};
  };
  EXPECT_EQ(open_data(opened(table("gap", {0, 1, 5, 3}))).shape().classes, 6);
  EXPECT_TRUE(says(refusal(opened(table("wide", {0, 1, 6, 1}))), "wide:4: the label 6 would make 7 classes"));
  EXPECT_TRUE(says(refusal(opened(table("wide", {0, 1, 6, 1}))), "of which 3 have samples; the next lower one is 1"));
  const auto two = table("two", {0, 1, 1, 0});
  EXPECT_EQ(open_data(opened(two, table("held", {1, 1}))).shape().classes, 2);
  EXPECT_TRUE(says(refusal(opened(two, table("third", {1, 2}))), "data.validation = "));
  EXPECT_TRUE(says(refusal(opened(two, table("third", {1, 2}))), "third:3: the label 2 is held out"));
  EXPECT_NO_THROW(open_data(opened(table("end", {0, 1, 1, 2}), 0.25))) << "a single sample is trained on";
}

TEST(OpenData, OptionOrLabelsSetClasses) {
  const TemporaryFolder folder;
  DataOptions options{.kind = DataKind::kTsv,
                      .path = folder.write("t", "sentence\tlabel\na b\t0\nb\t1\nc\t7\n"),
                      .validation = 0.0,
                      .context = 4};
  EXPECT_TRUE(says(refusal(options), "t:4: the label 7 would make 8 classes"));
  options.classes = 9;
  EXPECT_EQ(open_data(options).shape().classes, 9);
  options.validation = folder.write("held", "sentence\tlabel\na\t8\n");
  EXPECT_NO_THROW(open_data(options)) << "a class may have only held-out samples";
  options.classes = 8;
  EXPECT_TRUE(says(refusal(options), "held:2: the label 8 is none of data.classes = 8"));
  options.classes = 7;
  EXPECT_TRUE(says(refusal(options), "t:4: the label 7 is none of data.classes = 7"));
  options.classes = 1;
  EXPECT_TRUE(says(refusal(options), "data.classes = 1: nothing to choose from"));
  options.classes = -2;
  EXPECT_TRUE(says(refusal(options), "data.classes = -2: nothing to choose from"));
  EXPECT_TRUE(says(refusal({.path = folder.write("text", "some text"), .context = 2, .classes = 3}),
                   "data.classes = 3: only labels of mnist, tsv and csv"));
}

TEST(OpenData, TableWordsAreClasses) {
  const TemporaryFolder folder;
  DataOptions options{.kind = DataKind::kTsv,
                      .path = folder.write("t", "sentence\tlabel\na\tpositive\nb\tnegative\nc\tpositive\n"),
                      .validation = 0.0,
                      .context = 4};
  const Corpus corpus = open_data(options);
  EXPECT_EQ(corpus.class_names, (std::vector<std::string>{"negative", "positive"}));
  EXPECT_EQ(corpus.shape().classes, 2);
  ASSERT_EQ(corpus.notes.size(), 1U);
  EXPECT_TRUE(says(corpus.notes[0], "t: 0 = negative (1 row), 1 = positive (2)"));
  options.validation = folder.write("held", "sentence\tlabel\na\tneutral\n");
  EXPECT_TRUE(
      says(refusal(options), "held:2: column 2 (label): the label 'neutral' is none of those of data.path: negative"));
  options.validation = folder.write("numbers", "sentence\tlabel\na\t1\n");
  EXPECT_TRUE(says(refusal(options), "numbers:2: column 2 (label): the label '1' is none of those of data.path"));
  options.classes = 3;
  EXPECT_TRUE(says(refusal(options), "data.classes = 3: 2 classes have names"));
  options.classes = 0;
  options.labels = {"negative", "positive", "neutral"};
  options.validation = folder.write("third", "sentence\tlabel\na\tneutral\n");
  EXPECT_EQ(open_data(options).shape().classes, 3);
}

TEST(OpenData, CsvHasNumbersClassesOrTexts) {
  const TemporaryFolder folder;
  DataOptions options{
      .kind = DataKind::kCsv, .path = folder.write("n.csv", "w,h,p\n1,2,3\n4,5,6\n"), .validation = 0.0};
  EXPECT_EQ(open_data(options).shape().classes, 0);
  const auto words = folder.write("w.csv", "w,kind\n1,a\n2,b\n3,c\n4,a\n");
  options.validation = words;
  EXPECT_TRUE(says(refusal(options), "w.csv: has no column 'h', which is read from data.path"));
  options.validation = folder.write("same.csv", "w,h,p\n1,2,a\n");
  EXPECT_TRUE(says(refusal(options), "same.csv:2: the target is a word, but in data.path it is a number"));
  options.path = words;
  options.validation = 0.5;
  EXPECT_EQ(open_data(options).shape().classes, 3);
  options.path = folder.write("t.csv", "text,label\n\"a, b\",x\nc,y\n");
  options.text_column = "text";
  options.context = 4;
  options.validation = 0.0;
  const Corpus texts = open_data(options);
  EXPECT_EQ(texts.shape().context, 4);
  EXPECT_EQ(texts.class_names, (std::vector<std::string>{"x", "y"}));
}

std::vector<std::int64_t> targets_of(const Dataset& data) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < data.pass_size(); ++i) samples.push_back(i);
  Batch batch;
  data.fill(samples, batch);
  return std::get<std::vector<std::int64_t>>(batch.target.values);
}

// The file is sorted by class, so its end has only one class.
TEST(OpenData, SortedLabelsHoldOutByClass) {
  const TemporaryFolder folder;
  std::string text = "sentence\tlabel\n";
  for (int i = 0; i < 16; ++i) text += "some words\t" + std::to_string(i / 8) + "\n";
  const auto sorted = folder.write("t", text);
  const Corpus corpus = open_data({.kind = DataKind::kTsv, .path = sorted, .validation = 0.25, .context = 4});
  EXPECT_EQ(targets_of(*corpus.validation), (std::vector<std::int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(corpus.train->size(), 12);
  ASSERT_EQ(corpus.notes.size(), 1U);
  EXPECT_TRUE(says(corpus.notes[0], "note: data.validation = 0.25 holds out the last samples of each class"));
  folder.write("train-images-idx3-ubyte", idx_images(8, 1, 1, "abcdefgh"));
  folder.write("train-labels-idx1-ubyte", idx_labels(std::string("\0\0\0\0\1\1\1\1", 8)));
  const Corpus digits = open_data({.kind = DataKind::kMnist, .path = folder.path(), .validation = 0.5});
  EXPECT_EQ(targets_of(*digits.validation), (std::vector<std::int64_t>{0, 0, 1, 1}));
  Batch batch;
  digits.validation->fill(std::vector<std::int64_t>{0, 3}, batch);
  EXPECT_EQ(std::get<std::vector<float>>(batch.input.values), (std::vector<float>{'c' / 255.0F, 'h' / 255.0F}));
}

std::vector<float> inputs_of(const Dataset& data) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < data.pass_size(); ++i) samples.push_back(i);
  Batch batch;
  data.fill(samples, batch);
  return std::get<std::vector<float>>(batch.input.values);
}

// 30 rows of 3 classes, as iris.csv has them: the input is the row's number.
std::string rows_of_classes(const std::vector<std::string>& classes, bool sorted) {
  std::string text = "width,kind\n";
  for (std::size_t row = 0; row < 30; ++row)
    text += std::to_string(row) + "," + classes[sorted ? row / 10 : row % 3] + "\n";
  return text;
}

// The classes of a csv are words, or numbers with data.classes or data.labels.
TEST(OpenData, SortedTablesHoldOutByClass) {
  const TemporaryFolder folder;
  const auto words = folder.write("words.csv", rows_of_classes({"setosa", "versicolor", "virginica"}, true));
  const auto numbers = folder.write("numbers.csv", rows_of_classes({"0", "1", "2"}, true));
  for (const DataOptions& options : {DataOptions{.kind = DataKind::kCsv, .path = words},
                                     DataOptions{.kind = DataKind::kCsv, .path = numbers, .classes = 3},
                                     DataOptions{.kind = DataKind::kCsv, .path = numbers, .labels = {"a", "b", "c"}}}) {
    const Corpus corpus = open_data(options);
    EXPECT_EQ(targets_of(*corpus.validation), (std::vector<std::int64_t>{0, 1, 2}));
    EXPECT_EQ(inputs_of(*corpus.validation), (std::vector<float>{9, 19, 29}));
    const std::vector<float> trained = inputs_of(*corpus.train);
    ASSERT_EQ(trained.size(), 27U);
    EXPECT_EQ(trained[8], 8);
    EXPECT_EQ(trained[9], 10);
    EXPECT_EQ(trained[26], 28);
    EXPECT_TRUE(says(corpus.notes.back(), "note: data.validation = 0.1 holds out the last samples of each class"));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { corpus.validation->require_classes(2, "model.sizes"); }),
                     ".csv:31 has the label 2"));
  }
}

// An end with all classes, and numbers without classes.
TEST(OpenData, OtherTablesHoldOutTheEnd) {
  const TemporaryFolder folder;
  const auto mixed = folder.write("mixed.csv", rows_of_classes({"a", "b", "c"}, false));
  const auto sorted = folder.write("sorted.csv", rows_of_classes({"0", "1", "2"}, true));
  for (const auto& path : {mixed, sorted}) {
    const Corpus corpus = open_data({.kind = DataKind::kCsv, .path = path});
    EXPECT_EQ(inputs_of(*corpus.validation), (std::vector<float>{27, 28, 29}));
    for (const std::string& note : corpus.notes) EXPECT_FALSE(says(note, "holds out")) << note;
  }
}

// Each class has one row.
TEST(OpenData, OnlyRowsAreNotHeldOut) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.csv", "w,kind\n1,a\n2,b\n");
  EXPECT_TRUE(says(refusal({.kind = DataKind::kCsv, .path = path}),
                   "data.validation = 0.1: no class has two samples, so none can be held out"));
}

// The error about a too large label has its place in the file, for any held-out samples.
TEST(OpenData, LabelsKeepTheirFilePosition) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", idx_images(6, 1, 1, "abcdef"));
  folder.write("train-labels-idx1-ubyte", idx_labels(std::string("\0\0\0\1\1\1", 6)));
  const Corpus corpus = open_data({.kind = DataKind::kMnist, .path = folder.path(), .validation = 0.4});
  EXPECT_TRUE(says(message_of<ConfigError>([&] { corpus.train->require_classes(1, "model.sizes"); }), "label 3 of "));
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { corpus.validation->require_classes(1, "model.sizes"); }), "label 5 of "));
}

TEST(OpenData, ReportsAClassWithoutSamples) {
  const TemporaryFolder folder;
  DataOptions options{.kind = DataKind::kTsv,
                      .path = folder.write("t", "sentence\tlabel\na b\t0\nb\t2\n"),
                      .validation = 0.0,
                      .context = 4};
  const Corpus corpus = open_data(options);
  ASSERT_EQ(corpus.notes.size(), 1U);
  EXPECT_TRUE(says(corpus.notes[0], "note: 1 of the 3 classes has no training sample: the largest label is 2, "));
  EXPECT_TRUE(says(corpus.notes[0], "t:3; data.classes says"));
  options.classes = 3;
  EXPECT_TRUE(open_data(options).notes.empty());
}

TEST(OpenData, RefusesOneClassByLine) {
  const TemporaryFolder folder;
  const auto sorted = folder.write("sorted", "sentence\tlabel\na\t0\nb\t0\nc\t1\n");
  DataOptions options{.kind = DataKind::kTsv, .path = sorted, .validation = 0.0, .context = 4};
  EXPECT_NO_THROW(open_data(options));
  options.validation = 0.3;
  EXPECT_NO_THROW(open_data(options)) << "a sample of class 0 is held out";
  options = {.kind = DataKind::kTsv, .path = folder.write("one", "sentence\tlabel\na\t0\nb\t0\n"), .context = 4};
  EXPECT_TRUE(says(refusal(options), "one:2: all labels are the same: 1 training"));
  folder.write("train-images-idx3-ubyte", idx_images(2, 1, 1, "ab"));
  folder.write("train-labels-idx1-ubyte", idx_labels("\3\3"));
  EXPECT_TRUE(says(refusal({.kind = DataKind::kMnist, .path = folder.path(), .validation = 0.0}),
                   "train-labels-idx1-ubyte: all labels are the same: 2 training samples with the label 3"));
}

// Held-out files must differ from the training files, for any spelling of their paths.
TEST(OpenData, RefusesTrainingDataAsValidation) {
  const TemporaryFolder folder;
  const auto text = folder.write("a.txt", std::string(100, 'a')), other = folder.write("b.txt", std::string(100, 'b'));
  std::filesystem::create_symlink(text, folder / "link.txt");
  const std::string reason = "data.path also reads it, and validation needs samples that the model has not learned";
  EXPECT_TRUE(says(refusal({.path = text, .validation = text, .context = 4}),
                   "data.validation = " + text.native() + ": " + reason));
  EXPECT_TRUE(says(refusal({.path = text, .validation = folder / "link.txt", .context = 4}), reason));
  const DataFiles both{{other.string(), text.string()}};
  EXPECT_TRUE(says(refusal({.path = text, .validation = both, .context = 4}), text.native() + ": " + reason));
  EXPECT_NO_THROW(open_data({.path = text, .validation = other, .context = 4}));
  const auto table = folder.write("t.csv", "1,2\n3,4\n");
  EXPECT_TRUE(says(refusal({.kind = DataKind::kCsv, .path = table, .validation = table}), reason));
  const auto texts = folder.write("t.tsv", "sentence\tlabel\na\t0\nb\t1\n");
  EXPECT_TRUE(says(refusal({.kind = DataKind::kTsv, .path = texts, .validation = texts, .context = 4}), reason));
  EXPECT_TRUE(says(refusal({.kind = DataKind::kImages, .path = folder.path(), .validation = folder.path()}), reason));
}

TEST(OpenData, ErrorsNameTheFilesKey) {
  const TemporaryFolder folder;
  const auto good = folder.write("input.txt", std::string(100, 'a'));
  const auto empty = folder.write("empty.txt", "");
  EXPECT_TRUE(says(refusal({.path = folder / "none", .context = 4}), "data.path = "));
  EXPECT_TRUE(says(refusal({.path = empty, .context = 4}), "the file is empty"));
  EXPECT_TRUE(says(refusal({.path = folder.path(), .context = 4}), "is a folder"));
  EXPECT_TRUE(says(refusal({.path = good, .validation = folder / "none", .context = 4}), "data.validation = "));
  EXPECT_TRUE(says(refusal({.path = good, .validation = empty, .context = 4}), "data.validation = "));
  EXPECT_TRUE(says(refusal({.path = good, .context = 99}), "data.path = "));
  EXPECT_TRUE(says(refusal({.path = good, .context = 99}), "too short: 90 of its 100 tokens are in this split"));
  EXPECT_TRUE(says(refusal({.path = good, .validation = 0.05, .context = 64}), "data.validation = "));
  EXPECT_TRUE(says(refusal({.path = good, .validation = 0.05, .context = 64}),
                   "too short: 5 of its 100 tokens are in this split"));
}

TEST(OpenData, OptionsOutOfRangeAreRefused) {
  const TemporaryFolder folder;
  const auto path = folder.write("input.txt", std::string(100, 'a'));
  for (const double fraction : {-0.1, 1.0, 2.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_TRUE(says(refusal({.path = path, .validation = fraction, .context = 4}), "data.validation = ")) << fraction;
  EXPECT_TRUE(says(refusal({.path = path, .context = 0}), "data.context = 0: a sample needs one token or more"));
}

TEST(OpenData, SplitsNeedEqualColumns) {
  const TemporaryFolder folder;
  const auto three = folder.write("a.csv", "1,2,3\n"), two = folder.write("b.csv", "1,2\n");
  EXPECT_TRUE(says(refusal({.kind = DataKind::kCsv, .path = three, .validation = two}),
                   "b.csv: has 1 numbers per input, but the training data has 2"));
}

// Returns the inputs of the first held-out sample.
std::vector<float> held_out_inputs(const DataOptions& options) {
  Batch batch;
  open_data(options).validation->fill(std::vector<std::int64_t>{0}, batch);
  return std::get<std::vector<float>>(batch.input.values);
}

TEST(OpenData, HeldOutColumnsFollowTheirNames) {
  const TemporaryFolder folder;
  DataOptions options{.kind = DataKind::kCsv,
                      .path = folder.write("a.csv", "w,h,price\n1,2,3\n4,5,6\n"),
                      .validation = folder.write("b.csv", "price,id,h,w\n30,7,20,10\n")};
  EXPECT_EQ(held_out_inputs(options), (std::vector<float>{10, 20}));
  EXPECT_EQ(open_data(options).validation->shape().features, 2) << "the column id is not in data.path";
  options.columns = {"2"};
  options.label_column = "1";
  EXPECT_EQ(held_out_inputs(options), (std::vector<float>{20})) << "numbers count in data.path";
  options.columns = {};
  options.label_column = "";
  options.validation = folder.write("c.csv", "h,price,width\n1,2,3\n");
  const std::string message = refusal(options);
  EXPECT_TRUE(says(message, "data.validation = "));
  EXPECT_TRUE(says(message, "c.csv: has no column 'w', which is read from data.path"));
  EXPECT_TRUE(says(message, "its columns are h, price, width; give it the column names of data.path"));
  options.validation = folder.write("d.csv", "w,w,h,price\n1,1,2,3\n");
  EXPECT_TRUE(says(refusal(options), "the column 'w' is there several times"));
  options.validation = folder.write("e.csv", "10,20,30\n");
  EXPECT_EQ(held_out_inputs(options), (std::vector<float>{10, 20})) << "without a header: by position";
}

TEST(OpenData, HeldOutTextsFollowColumnNames) {
  const TemporaryFolder folder;
  DataOptions options{.kind = DataKind::kCsv,
                      .path = folder.write("a.csv", "text,mood\nsome words,good\nothers,bad\n"),
                      .validation = folder.write("b.csv", "mood,text\ngood,held words\n"),
                      .context = 4,
                      .text_column = "1",
                      .label_column = "2"};
  EXPECT_EQ(open_data(options).validation->show(0, 60), "held words");
  options.validation = folder.write("c.csv", "feeling,text\ngood,held words\n");
  EXPECT_TRUE(says(refusal(options), "c.csv: has no column 'mood', which is read from data.path"));
}

TEST(OpenData, KnownWordsReplaceLearning) {
  const TemporaryFolder folder;
  DataOptions options{.kind = DataKind::kTsv,
                      .path = folder.write("t", "sentence\tlabel\nb b a\t0\na c\t1\n"),
                      .validation = 0.0,
                      .context = 3};
  EXPECT_EQ(open_data(options).words, "[PAD]\n[UNK]\n[CLS]\na\nb\nc\n");
  options.known_words = KnownWords{.lines = "[PAD]\n[UNK]\n[CLS]\nc\nb\n", .key = "run.dir", .path = "words.txt"};
  const Corpus corpus = open_data(options);
  EXPECT_EQ(corpus.words, options.known_words->lines);
  EXPECT_EQ(corpus.shape().vocab, 5);
  EXPECT_TRUE(says(corpus.notes.at(0), "words: as in words.txt, not learned from this data: 5"));
  Batch batch;
  corpus.train->fill(std::vector<std::int64_t>{0, 1}, batch);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(batch.input.values), (std::vector<std::int64_t>{2, 4, 4, 2, 1, 3}));
}

TEST(OpenData, ReadsImages) {
  const TemporaryFolder folder;
  folder.write("t10k-images-idx3-ubyte", idx_images(10, 1, 1, "abcdefghij"));
  folder.write("t10k-labels-idx1-ubyte", idx_labels(std::string("\0\1\2\3\4\5\6\7\1\1", 10)));
  const Corpus corpus = open_data({.kind = DataKind::kMnist, .path = folder.path(), .validation = 0.2});
  EXPECT_EQ(corpus.train->size(), 8);
  EXPECT_EQ(corpus.validation->size(), 2);
  EXPECT_EQ(corpus.shape().classes, 8);
  EXPECT_EQ(corpus.shape().features, 1);
}

TEST(OpenData, OnlyImagesAreAugmented) {
  const TemporaryFolder folder;
  const DataOptions options{
      .path = folder.write("text", "some text"), .context = 2, .images = {.augment = Augment::kShift}};
  EXPECT_TRUE(says(message_of<ConfigError>([&] { open_data(options); }), "data.augment = shift or flip: only images"));
}

TEST(OpenData, CutsRealTextLikeNanogpt) {
  const std::string path = std::string(built::kSourceFolder) + "/examples/shakespeare/input.txt";
  const Corpus corpus = open_data({.path = path, .validation = 0.1, .context = 64});
  EXPECT_EQ(corpus.train->size(), 1'003'854);
  EXPECT_EQ(corpus.validation->size(), 111'540);
  EXPECT_EQ(corpus.shape().classes, 256);
}

}  // namespace
}  // namespace zero
