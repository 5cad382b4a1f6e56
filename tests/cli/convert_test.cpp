// `zero convert` on the command line. tests/config/deepspeed/deepspeed_test.cpp tests the conversion of each key.
#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

class Convert : public testing::Test {
 protected:
  Convert() {
    folder_.write("ds_config.json", R"({"train_batch_size": 4, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},)"
                                    R"("zero_optimization": {"stage": 2, "overlap_comm": true}})");
  }
  Folder folder_;
};

TEST_F(Convert, PrintsAFileThatPlanTakes) {
  const Ran ran = folder_.zero("convert ds_config.json");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_CONTAINS(ran.output, "stage = 2");
  EXPECT_CONTAINS(ran.output, "# zero_optimization.stage");
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero plan` needs it";
  folder_.write("zero.toml", ran.output);
  const Ran plan = folder_.zero("plan zero.toml --world 2 --model.vocab 64 --data.path x");
  EXPECT_EQ(plan.status, 0) << plan.errors;
  EXPECT_CONTAINS(plan.output, "stage 2 on 2 ranks");
}

TEST_F(Convert, WritesFileAndNamesDroppedKeys) {
  const Ran ran = folder_.zero("convert ds_config.json -o zero.toml");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_CONTAINS(ran.output, "not carried over: zero_optimization.overlap_comm: ");
  EXPECT_CONTAINS(folder_.read("zero.toml"), "#   zero_optimization.overlap_comm  ");
  EXPECT_EQ(folder_.zero("convert ds_config.json").output, folder_.read("zero.toml"));
}

TEST_F(Convert, ValuesForAutoAreListed) {
  folder_.write("trainer.json", R"({"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}})");
  const Ran ran = folder_.zero("convert trainer.json -o zero.toml");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_CONTAINS(ran.output,
                  "optimizer.lr = 5e-05: optimizer.params.lr: the default of TrainingArguments' learning_rate");
  EXPECT_CONTAINS(folder_.read("zero.toml"), "arguments of Hugging Face's Trainer");
}

TEST_F(Convert, ReplacesNoFile) {
  folder_.write("zero.toml", "mine");
  const Ran ran = folder_.zero("convert ds_config.json -o zero.toml");
  EXPECT_EQ(ran.status, 2);
  EXPECT_CONTAINS(ran.errors, "exists already");
  EXPECT_EQ(folder_.read("zero.toml"), "mine");
}

TEST_F(Convert, BadFileEndsWithStatusTwo) {
  folder_.write("broken.json", "{\"zero_optimization\": ");
  for (const char* file : {"broken.json", "absent.json", "."}) {
    const Ran ran = folder_.zero(std::string("convert ") + file);
    EXPECT_EQ(ran.status, 2) << file;
    EXPECT_TRUE(ran.errors.starts_with("zero convert: ")) << ran.errors;
    EXPECT_EQ(ran.output, "") << file;
  }
}

}  // namespace
}  // namespace zero
