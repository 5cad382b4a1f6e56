#include "app/data/texts/labelled_text_dataset.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/data/open_data.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr const char* kTable = "sentence\tlabel\na b\t0\nb c c\t2\nc\t1\nd\t1\n";

TEST(LabelledTextDataset, RowsAreTokensAndAClass) {
  const TemporaryFolder folder;
  const Corpus corpus = open_data(
      {.kind = DataKind::kTsv, .path = folder.write("t.tsv", kTable), .validation = 0.25, .context = 3, .words = 10});
  EXPECT_EQ(corpus.shape().context, 3);
  EXPECT_EQ(corpus.shape().classes, 3);
  EXPECT_EQ(corpus.shape().vocab, 6) << "three special ones, and the words of the training texts: c, b, a";
  EXPECT_EQ(corpus.train->size(), 3);
  Batch batch;
  const Numbers samples{1, 0};
  EXPECT_EQ(corpus.train->fill(samples, batch), 2);
  EXPECT_EQ(std::get<Numbers>(batch.input.values), (Numbers{2, 4, 3, 2, 5, 4}));
  EXPECT_EQ(std::get<Numbers>(batch.target.values), (Numbers{2, 0}));
  const Numbers first{0};
  corpus.validation->fill(first, batch);
  EXPECT_EQ(std::get<Numbers>(batch.input.values), (Numbers{2, 1, 0})) << "d is a word of only the validation text";
}

TEST(LabelledTextDataset, ShowsTextUnchanged) {
  const TemporaryFolder folder;
  const Corpus corpus = open_data(
      {.kind = DataKind::kTsv, .path = folder.write("t.tsv", kTable), .validation = 0.25, .context = 3, .words = 10});
  EXPECT_EQ(corpus.train->show(1, 60), "b c c") << "also words beyond the context";
  EXPECT_EQ(corpus.validation->show(0, 60), "d") << "also a word that is no token";
  EXPECT_EQ(corpus.train->show(1, 4), "b...");
  EXPECT_EQ(corpus.train->name_of(2), "2");
  EXPECT_THROW(corpus.train->show(3, 60), InternalError);
}

TEST(LabelledTextDataset, ClassesOfWordOrderHaveNames) {
  const TemporaryFolder folder;
  const Corpus corpus = open_data({.kind = DataKind::kWordOrder,
                                   .path = folder.write("t.txt", "To be, or not to be\n"),
                                   .validation = 0.0,
                                   .context = 8});
  EXPECT_EQ(corpus.train->show(0, 60), "to be , or not to be");
  Batch batch;
  const Numbers samples{0, 1};
  corpus.train->fill(samples, batch);
  const auto& classes = std::get<Numbers>(batch.target.values);
  EXPECT_EQ(corpus.train->name_of(static_cast<double>(classes[0])), "as written");
  EXPECT_EQ(corpus.train->name_of(static_cast<double>(classes[1])), "shuffled");
}

TEST(LabelledTextDataset, TooFewClassesNameTheLine) {
  const TemporaryFolder folder;
  const Corpus corpus =
      open_data({.kind = DataKind::kTsv, .path = folder.write("t.tsv", kTable), .validation = 0.0, .context = 3});
  EXPECT_NO_THROW(corpus.require_classes(3, "data.classes"));
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { corpus.require_classes(2, "data.classes"); }), "t.tsv:3 has the label 2"));
}

TEST(LabelledTextDataset, AContextWithoutRoomIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.tsv", kTable);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { open_data({.kind = DataKind::kTsv, .path = path, .context = 1}); }),
                   "data.context = 1"));
}

TEST(LabelledTextDataset, WordPieceVocabularyReplacesLearning) {
  const TemporaryFolder folder;
  const Corpus corpus = open_data({.kind = DataKind::kTsv,
                                   .path = folder.write("t.tsv", kTable),
                                   .validation = 0.0,
                                   .context = 4,
                                   .vocab = folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nb\nc\n")});
  EXPECT_EQ(corpus.shape().vocab, 6);
  Batch batch;
  const Numbers samples{0};
  corpus.train->fill(samples, batch);
  EXPECT_EQ(std::get<Numbers>(batch.input.values), (Numbers{2, 1, 4, 3}));
  EXPECT_TRUE(says(corpus.notes.at(0), "texts are lower-cased"));
}

TEST(LabelledTextDataset, LowerCaseFollowsTheOption) {
  const TemporaryFolder folder;
  DataOptions options{.kind = DataKind::kTsv,
                      .path = folder.write("t.tsv", "sentence\tlabel\nA a\t0\na\t1\n"),
                      .validation = 0.0,
                      .context = 4,
                      .vocab = folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nA\n")};
  Batch batch;
  const auto numbers = [&] {
    const Numbers samples{0};
    open_data(options).train->fill(samples, batch);
    return std::get<Numbers>(batch.input.values);
  };
  EXPECT_EQ(numbers(), (Numbers{2, 5, 4, 3}));
  options.lower_case = true;
  EXPECT_EQ(numbers(), (Numbers{2, 4, 4, 3}));
}

}  // namespace
}  // namespace zero
