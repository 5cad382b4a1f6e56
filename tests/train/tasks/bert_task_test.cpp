#include <cmath>

#include <gtest/gtest.h>

#include "zero/base/files/file.h"

#include "app/models/bert.h"
#include "app/train/tasks/tasks.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

TEST(BertTask, SortsTextsIntoTheDatasClasses) {
  const auto task = real_task(some_bert(), kTextsShape);
  const auto tokens = torch::tensor({{2, 5, 7, 9, 0, 0, 0, 0}, {2, 4, 6, 8, 10, 3, 0, 0}}, at::kLong);
  const auto classes = torch::tensor({0, 1}, at::kLong);
  const Task::Score score = task->score(tokens, classes);
  EXPECT_NEAR(score.loss.item<double>(), std::log(2.0), 0.1);
  EXPECT_LE(score.num_correct.item<std::int64_t>(), 2);
  EXPECT_EQ(task->language_model(), nullptr);
  EXPECT_EQ(task->tokens_per_sample(), 1) << "texts are counted";
  EXPECT_GT(task->flops_per_sample(), 0);
}

TEST(BertTask, DataGivesVocabularyClassesAndPadding) {
  const auto task = make_task(some_bert(), {.context = 8, .classes = 5, .vocab = 11, .pad = 3}, 1);
  const BertOptions& made = dynamic_cast<BertImpl&>(task->module()).options();
  EXPECT_EQ(made.vocab, 11);
  EXPECT_EQ(made.classes, 5);
  EXPECT_EQ(made.pad, 3);
}

TEST(BertTask, RefusesUnfitOptionsByKey) {
  EXPECT_TRUE(says(refusal_of_task(some_bert(), kTextShape), "use [data] kind tsv, csv or word_order"));
  EXPECT_TRUE(says(refusal_of_task(some_bert(), {.context = 9, .classes = 2, .vocab = 11}), "model.context is 8"));
  EXPECT_TRUE(says(refusal_of_task(some_bert(), {.context = 8, .classes = 1, .vocab = 11}), "data.classes = 1"));
  auto options = some_bert();
  options.vocab = 10;
  EXPECT_TRUE(says(refusal_of_task(options, kTextsShape), "model.vocab = 10: smaller than a token of the data"));
}

TEST(BertTask, PlanKnowsWordOrderShape) {
  auto options = some_bert();
  EXPECT_FALSE(bert_shape(options, DataKind::kWordOrder, 8));
  options.vocab = 11;
  EXPECT_EQ(bert_shape(options, DataKind::kWordOrder, 8)->classes, 2);
  EXPECT_EQ(bert_shape(options, DataKind::kWordOrder, 8)->vocab, 11);
  EXPECT_FALSE(bert_shape(options, DataKind::kTsv, 8)) << "only the file gives its classes";
}

TEST(BertTask, WeightsAreDescribedForTransformers) {
  const TemporaryFolder folder;
  EXPECT_TRUE(make_task(some_bert(), kTextsShape, 1)->describe_weights(folder.path(), DType::kFloat32));
  EXPECT_TRUE(says(read_file(folder / "config.json"), "\"BertForSequenceClassification\""));
}

}  // namespace
}  // namespace zero
