// Words that a bert learns from its data: a run keeps them, whatever becomes of the data.
#include "app/train/weights/run_words.h"

#include <filesystem>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

#include "tests/support/message_of.h"
#include "tests/train/small_run.h"

namespace zero {
namespace {

constexpr std::string_view kFirst = "sentence\tlabel\nx x x y y z\t0\nx y\t1\n";
constexpr std::string_view kFirstWords = "[PAD]\n[UNK]\n[CLS]\nx\ny\nz\n";
constexpr std::string_view kOther = "sentence\tlabel\nz z z y y x\t0\nz y\t1\n";  // the same words by another frequency
constexpr std::string_view kOtherWords = "[PAD]\n[UNK]\n[CLS]\nz\ny\nx\n";

class RunWords : public SmallRunTest {
 protected:
  TrainJob job(std::string_view rows, std::int64_t steps) const {
    TrainJob job;
    job.model = {.name = "bert", .layers = 1, .width = 8, .heads = 2, .context = 8};
    job.data = {.kind = DataKind::kTsv, .path = folder_.write("rows.tsv", rows), .validation = 0.0};
    job.train = {.steps = steps, .batch = 2, .eval_every = 0, .log_every = 5};
    job.schedule = {.kind = LrKind::kConstant, .lr = 1e-2, .warmup = 0, .steps = steps};
    job.checkpoint.every_steps = 1;
    job.attach = {.stage = 1, .optimizer = AdamW{.lr = 1e-2}};
    job.run_dir = folder_ / "run";
    job.config_text = "[train]\n";
    return job;
  }
  std::string words(const std::string& of) const { return read_file(folder_ / (of + "/words.txt")); }
  std::string refusal(const TrainJob& job) {
    return message_of<ConfigError>([&] { run(job, 1); });
  }
};

TEST_F(RunWords, ContinuedRunKeepsItsWords) {
  run(job(kFirst, 1), 2);
  EXPECT_EQ(words("run"), kFirstWords);
  run(job(kOther, 2), 2);
  EXPECT_TRUE(says(out_, "continuing after step 1 of 2"));
  EXPECT_TRUE(says(out_, "run/words.txt, not learned from this data: 6"));
  EXPECT_EQ(words("run"), kFirstWords);
  TrainJob again = job(kOther, 1);
  again.overwrite = true;
  run(again, 1);
  EXPECT_EQ(words("run"), kOtherWords) << "another run";
}

TEST_F(RunWords, FirstWeightsBringTheirWords) {
  run(job(kFirst, 1), 1);
  TrainJob tuned = job(kOther, 1);
  tuned.model.init = folder_ / "run";
  tuned.run_dir = folder_ / "tuned";
  run(tuned, 2);
  EXPECT_TRUE(says(out_, "run/words.txt, not learned from this data: 6"));
  EXPECT_EQ(words("tuned"), kFirstWords);
  std::filesystem::remove(folder_ / "run/words.txt");
  tuned.overwrite = true;
  run(tuned, 1);
  EXPECT_TRUE(says(out_, "words are learned from data.path and not checked: "));
  EXPECT_EQ(words("tuned"), kOtherWords);
}

TEST_F(RunWords, RunsWithoutTheFileContinue) {
  run(job(kFirst, 1), 1);
  std::filesystem::remove(folder_ / "run/words.txt");
  run(job(kOther, 2), 1);
  EXPECT_TRUE(says(out_, "continuing after step 1 of 2"));
  EXPECT_TRUE(says(out_, "note: words are learned from data.path and not checked: the run began without "));
  EXPECT_EQ(words("run"), kOtherWords);
}

TEST_F(RunWords, AnotherNumberOfWordsIsRefused) {
  run(job(kFirst, 1), 1);
  folder_.write("run/words.txt", "[PAD]\n[UNK]\n[CLS]\nx\ny\n");
  const std::string message = refusal(job(kFirst, 2));
  EXPECT_TRUE(says(message, "run.dir = "));
  EXPECT_TRUE(says(message, "run/words.txt: has 5 lines, and the model of the run has 6 tokens"));
  EXPECT_TRUE(says(message, "restore the file that the run wrote when it began"));
  TrainJob tuned = job(kFirst, 1);
  tuned.model.init = folder_ / "run";
  tuned.run_dir = folder_ / "tuned";
  EXPECT_TRUE(says(refusal(tuned), "has 6 tokens, and " + (folder_ / "run/words.txt").string() + " has 5"));
}

}  // namespace
}  // namespace zero
