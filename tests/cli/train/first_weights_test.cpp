// model.init with a config.json beside the weights: its values are compared before a run or a dry run.
// tests/train/transformers_numbers.py wrote the folder.
#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/training_test.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

class FirstWeights : public TrainingTest {
 protected:
  FirstWeights()
      : TrainingTest(
            "[model]\nname = \"llama\"\nlayers = 2\nwidth = 16\nkv_heads = 2\nhidden = 19\ncontext = 11\nvocab = 29\n"
            "init = \"llama\"\n[data]\nkind = \"tokens\"\npath = \"tokens.bin\"\n[train]\nsteps = 1\nbatch = 2\n"
            "[run]\nthreads = 1\ndir = \"run\"\n") {}
  void SetUp() override {
    TrainingTest::SetUp();
    std::string tokens;  // 16 bits each
    for (int i = 0; i < 400; ++i) tokens += {static_cast<char>(i * 5 % 29), '\0'};
    folder_.write("tokens.bin", tokens);
    const fs::path published = fs::path(built::kSourceFolder) / "tests/train/transformers";
    fs::copy(published / "llama", folder_.path() / "llama");
  }
};

TEST_F(FirstWeights, DryRunAndRunRefuseMismatches) {
  for (const char* const flags : {"--dry-run", "-n 2"}) {
    const Ran ran = folder_.zero(
        std::string("train c.toml --model.heads 2 --model.rope_theta 10000 --model.norm_eps 1e-5 ") + flags);
    EXPECT_EQ(ran.status, 2) << flags;
    for (const char* const told :
         {"model.heads = 2: the weights of model.init belong to a model with 4 (llama/config.json: "
          "num_attention_heads)",
          "model.rope_theta = 10000, not 500 (rope_parameters.rope_theta)", "model.norm_eps = 1e-05, not 1e-06",
          "set model.heads to 4, model.rope_theta to 500, model.norm_eps to 1e-06"})
      EXPECT_NE(ran.errors.find(told), std::string::npos) << flags << ": " << told << "\n" << ran.errors;
    EXPECT_FALSE(fs::exists(folder_.path() / "run")) << flags;
  }
}

TEST_F(FirstWeights, TakenWithValuesFromTheRefusal) {
  const std::string keys = " --model.heads 4 --model.rope_theta 500 --model.norm_eps 1e-06";
  const Ran ran = folder_.zero("train c.toml -n 2" + keys);
  EXPECT_EQ(ran.status, 0) << ran.errors;
  // That run's weights are also compared, with the run's own files.
  const Ran next =
      folder_.zero("train c.toml --dry-run --run.dir next --model.init run" + keys + " --model.rope_theta 600");
  EXPECT_EQ(next.status, 2);
  EXPECT_NE(next.errors.find("to a model with 500 (run/config.toml: model.rope_theta)"), std::string::npos)
      << next.errors;
  EXPECT_EQ(folder_.zero("train c.toml --dry-run --run.dir next --model.init run" + keys).status, 0);
}

// Without config.json, no file says whether the head is a copy of the token table. The run and the dry run report the
// skipped head.
TEST_F(FirstWeights, SkippedHeadIsReported) {
  fs::remove(folder_.path() / "llama/config.json");
  const std::string note =
      "note: lm_head.weight of llama is skipped: the head of this model is model.embed_tokens.weight";
  for (const char* const flags : {"--dry-run", "-n 2"}) {
    const Ran ran = folder_.zero(std::string("train c.toml --model.heads 4 --model.tie_embeddings true ") + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    std::string text = ran.output;
    std::ranges::replace(text, '\n', ' ');  // a dry run wraps its lines
    EXPECT_NE(text.find(note), std::string::npos) << flags << "\n" << ran.output << ran.errors;
  }
}

}  // namespace
}  // namespace zero
