// `zero generate`: text from the weights of a run.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

class GenerateText : public TrainingTest {
 protected:
  GenerateText()
      : TrainingTest(small_gpt("[train]\nsteps = 4\nbatch = 2\n[checkpoint]\nevery = 2\n", "validation = 0\n")) {}
  Ran text_of(const std::string& run) const {
    return folder_.zero("generate " + run + " --prompt all --tokens 12 --temperature 0");
  }
};

// The run may be unfinished.
TEST_F(GenerateText, RunOrCheckpointWritesText) {
  report_of("", "run");
  const Ran finished = text_of("run");
  EXPECT_EQ(finished.status, 0) << finished.errors;
  EXPECT_EQ(finished.output.size(), 3U + 12 + 1);
  const Ran of_checkpoint = text_of("run/checkpoints/step-00000004");
  EXPECT_EQ(of_checkpoint.status, 0) << of_checkpoint.errors;
  EXPECT_EQ(of_checkpoint.output, finished.output) << "the same weights";
  EXPECT_NE(of_checkpoint.errors.find("step 4: "), std::string::npos) << of_checkpoint.errors;
  // Leaves the folder as a kill after step 2 would.
  for (const char* file : {"report.json", "model.safetensors", "checkpoints/step-00000004"})
    fs::remove_all(folder_.path() / "run" / file);
  const Ran unfinished = text_of("run");
  EXPECT_EQ(unfinished.status, 0) << unfinished.errors;
  EXPECT_NE(unfinished.errors.find("step 2: run/checkpoints/step-00000002"), std::string::npos) << unfinished.errors;
  fs::remove_all(folder_.path() / "run/checkpoints");
  const Ran nothing = text_of("run");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_NE(nothing.errors.find("neither model.safetensors of a finished run nor a checkpoint"), std::string::npos)
      << nothing.errors;
}

TEST_F(GenerateText, SaysItsSeed) {
  report_of("", "run");
  const Ran usual = folder_.zero("generate run --prompt all --tokens 40");
  EXPECT_EQ(usual.errors, "seed 1337; another --seed draws another text\n");
  EXPECT_EQ(folder_.zero("generate run --prompt all --tokens 40 --seed 1337").output, usual.output);
  EXPECT_NE(folder_.zero("generate run --prompt all --tokens 40 --seed 7").output, usual.output);
  EXPECT_EQ(text_of("run").errors, "") << "at temperature 0 no token is drawn";
}

TEST_F(GenerateText, TakesTheBestCheckpoint) {
  const std::string flags =
      "--data.validation 0.2 --train.eval_every 2 --train.eval_batches 1 --optimizer.lr 0.5 "
      "--schedule.warmup 0 --train.steps 8 --checkpoint.keep 1 --checkpoint.keep_best loss";
  const auto report = report_of(flags, "run");
  const std::string best =
      fmt::format("run/checkpoints/step-{:08}", report["best_evaluation"]["step"].get<std::int64_t>());
  const Ran named = text_of("run --best");
  EXPECT_EQ(named.status, 0) << named.errors;
  EXPECT_CONTAINS(named.errors, best);
  EXPECT_EQ(text_of(best).output, named.output);
  const Ran exported = folder_.zero("export run --best -o weights.safetensors");
  EXPECT_EQ(exported.status, 0) << exported.errors;
  EXPECT_CONTAINS(exported.output, best);
  report_of("", "plain");
  for (const char* verb : {"export plain --best -o other.safetensors", "generate plain --best --prompt all"}) {
    const Ran ran = folder_.zero(verb);
    EXPECT_EQ(ran.status, 2) << verb;
    EXPECT_CONTAINS(ran.errors, "--best = plain: this run keeps no best checkpoint");
    EXPECT_CONTAINS(ran.errors, "train with checkpoint.keep_best loss or accuracy");
  }
}

// If a folder's tokenizer is learned anew, its tokens do not fit the weights.
TEST_F(GenerateText, RefusesAnotherTokenizer) {
  const auto tokenize = [&](int size) {
    const Ran ran = folder_.zero("tokenize input.txt --learn tok --size " + std::to_string(size) + " -o tokens.bin");
    ASSERT_EQ(ran.status, 0) << ran.errors;
  };
  tokenize(258);
  report_of("--data.kind tokens --data.path tokens.bin --data.tokenizer tok --model.vocab 0", "run");
  EXPECT_EQ(text_of("run").status, 0);
  std::filesystem::remove_all(folder_.path() / "tok");  // an existing tokenizer would not be replaced
  tokenize(256);
  const Ran other = text_of("run");
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.errors.find("data.tokenizer = tok/vocab.json: it has 256 tokens, and the weights of run have 258"),
            std::string::npos)
      << other.errors;
}

}  // namespace
}  // namespace zero
