#include "app/train/machine/learned_activations.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

class LearnedActivationsTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "zero.cpp" / "activations.json"; }
  LearnedActivations of(const std::string& work) const { return {work, path()}; }
  TemporaryFolder folder_;
};

// Only the next run of the same work knows the measured use.
TEST_F(LearnedActivationsTest, NextSameRunKnowsUse) {
  EXPECT_EQ(of("a").bytes(), 0) << "there is no file yet";
  of("a").took(700);
  of("b").took(300);
  EXPECT_EQ(of("a").bytes(), 700);
  EXPECT_EQ(of("b").bytes(), 300);
  EXPECT_EQ(of("c").bytes(), 0);
}

// A run keeps its own peak, even if an earlier run's was higher.
TEST_F(LearnedActivationsTest, RunKeepsItsOwnPeak) {
  of("a").took(700);
  LearnedActivations later = of("a");
  later.took(400);
  later.took(500);
  later.took(450);
  EXPECT_EQ(of("a").bytes(), 500);
}

// The next run reserves half as much again, or the requested bytes if they are more.
TEST_F(LearnedActivationsTest, ShortageAddsHalfNextTime) {
  EXPECT_TRUE(of("a").lacked({.torch = 600, .asked = 100, .held = 9000}));
  EXPECT_EQ(of("a").bytes(), 900);
  EXPECT_TRUE(of("a").lacked({.torch = 700, .asked = 50, .held = 9000}));
  EXPECT_EQ(of("a").bytes(), 1350) << "more than the room it had, although it used less";
  EXPECT_TRUE(of("a").lacked({.torch = 700, .asked = 4000, .held = 9000}));
  EXPECT_EQ(of("a").bytes(), 4700);
}

TEST_F(LearnedActivationsTest, ReserveIsAtMostTheDevice) {
  EXPECT_TRUE(of("a").lacked({.torch = 600, .asked = 500, .held = 100}));
  EXPECT_EQ(of("a").bytes(), 700);
  EXPECT_FALSE(of("a").lacked({.torch = 650, .asked = 500, .held = 50})) << "a restart would change nothing";
  EXPECT_EQ(of("a").bytes(), 700);
}

// A damaged file counts as empty.
TEST_F(LearnedActivationsTest, ReplacesDamagedFile) {
  std::filesystem::create_directories(path().parent_path());
  for (const char* text : {"", "[1, 2]", R"({"a": "many"})", R"({"a": -5})", R"({"a": 1e3})", "{\"a\": {"}) {
    std::ofstream(path()) << text;
    EXPECT_EQ(of("a").bytes(), 0) << text;
    of("a").took(7);
    EXPECT_EQ(of("a").bytes(), 7) << text;
  }
}

TEST_F(LearnedActivationsTest, UnwritableFileEndsNoRun) {
  std::ofstream(folder_.path() / "zero.cpp") << "no folder";
  LearnedActivations learned = of("a");
  learned.took(7);
  EXPECT_EQ(learned.bytes(), 7);
}

TEST(ActivationWork, IsOfWhatActivationsDependOn) {
  const ModelOptions model{.name = "gpt2"};
  const SampleShape shape{.context = 64, .classes = 256};
  const std::string work = activation_work(model, shape, 8, DType::kFloat32, "H");
  EXPECT_EQ(activation_work(model, shape, 8, DType::kFloat32, "H"), work);
  EXPECT_NE(activation_work(model, shape, 9, DType::kFloat32, "H"), work);
  EXPECT_NE(activation_work(model, shape, 8, DType::kBFloat16, "H"), work);
  EXPECT_NE(activation_work(model, {.context = 128, .classes = 256}, 8, DType::kFloat32, "H"), work);
  EXPECT_NE(activation_work(model, shape, 8, DType::kFloat32, "A"), work) << "another kind of GPU";
  ModelOptions other = model;
  other.layers = 5;
  EXPECT_NE(activation_work(other, shape, 8, DType::kFloat32, "H"), work);
  other = model;
  other.checkpoint_activations = true;
  EXPECT_NE(activation_work(other, shape, 8, DType::kFloat32, "H"), work);
  other = model;
  other.init = "weights.safetensors";
  EXPECT_EQ(activation_work(other, shape, 8, DType::kFloat32, "H"), work) << "values take no memory";
}

}  // namespace
}  // namespace zero
