#include "app/train/run/shown_predictions.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "app/data/images/image_dataset.h"
#include "app/data/open_data.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

const Corpus& some_texts() {
  static const TemporaryFolder folder;
  static const Corpus corpus =
      open_data({.kind = DataKind::kTsv,
                 .path = folder.write("t.tsv", "sentence\tlabel\na fine film of great length\t1\nno\t0\n"),
                 .validation = 0.0,
                 .context = 8});
  return corpus;
}

TEST(ShownPredictions, TextFollowsPredictionAndTruth) {
  const std::vector<PredictedSample> samples{{.sample = 0, .predicted = 0, .target = 1}, {.sample = 1}};
  EXPECT_EQ(shown_predictions(samples, *some_texts().train, 79),
            "  0  1  a fine film of great length\n"
            "  0  0  no");
  EXPECT_EQ(shown_predictions(samples, *some_texts().train, 27),
            "  0  1  a fine film of g...\n"
            "  0  0  no");
  EXPECT_EQ(shown_predictions(samples, *some_texts().train, 1),
            "  0  1  a fine film o...\n"
            "  0  0  no")
      << "a sample is shown, however narrow the terminal";
  EXPECT_EQ(shown_predictions({}, *some_texts().train, 79), "");
}

TEST(ShownPredictions, PictureFollowsClassNames) {
  const LabelledImages images{.path = "flowers",
                              .height = 4,
                              .width = 2,
                              .pixels = {255, 0, 255, 0, 0, 255, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0},
                              .labels = {0, 1},
                              .classes = {"ox-eye daisy", "rose"}};
  const ImageDataset data(images, 0, 2, "data.path");
  const std::vector<PredictedSample> samples{{.sample = 0, .predicted = 1, .target = 0},
                                             {.sample = 1, .predicted = 1, .target = 1}};
  EXPECT_EQ(shown_predictions(samples, data, 79),
            "  rose  ox-eye daisy  @\n"
            "                       @\n"
            "\n"
            "  rose  rose");
}

TEST(ShownPredictions, NumbersOfATableAreAligned) {
  const TemporaryFolder folder;
  const Corpus corpus = open_data(
      {.kind = DataKind::kCsv, .path = folder.write("t.csv", "a,b,y\n1,2,3\n-4,5,60.25\n"), .validation = 0.0});
  const std::vector<PredictedSample> samples{{.sample = 0, .predicted = 3.00004, .target = 3},
                                             {.sample = 1, .predicted = -58.5, .target = 60.25}};
  EXPECT_EQ(shown_predictions(samples, *corpus.train, 79),
            "  3      3      a = 1, b = 2\n"
            "  -58.5  60.25  a = -4, b = 5");
}

TEST(ShownPredictions, ATasksPredictionsNameTheirSamples) {
  const auto task = real_task(some_bert(), some_texts().shape());
  const auto samples = predict_samples(*task, *some_texts().train, 5);
  ASSERT_EQ(samples.size(), 2U) << "as many as the split has";
  EXPECT_EQ(samples[1].sample, 1);
  EXPECT_EQ(samples[0].target, 1);
  EXPECT_NE(shown_predictions(samples, *some_texts().train, 79).find("a fine film"), std::string::npos);
}

}  // namespace
}  // namespace zero
