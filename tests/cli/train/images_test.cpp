// Pictures of several sizes and formats through the program: training, evaluation and export.
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/data/make_pictures.h"
#include "tests/support/json_lines.h"

namespace zero {
namespace {

using Json = nlohmann::json;

// Columns of the right half are darker, so a flip changes the picture.
Pixels with_a_dark_half(Pixels pixels) {
  for (std::size_t value = 0; value < pixels.values.size(); ++value) {
    const std::size_t column = value / 3 % static_cast<std::size_t>(pixels.width);
    if (2 * column >= static_cast<std::size_t>(pixels.width)) pixels.values[value] /= 2;
  }
  return pixels;
}

class ImagesOfTwoColours : public TrainingTest {
 protected:
  ImagesOfTwoColours()
      : TrainingTest(
            "[model]\nname = \"cnn\"\n[data]\nkind = \"images\"\npath = \"flowers\"\nchannels = 3\nsize = [16, 24]\n"
            "augment = \"flip\"\nvalidation = 0.25\n[train]\nsteps = 60\nbatch = 3\neval_every = 30\n"
            "[optimizer]\nlr = 0.003\n[schedule]\nname = \"constant\"\nwarmup = 0\n[checkpoint]\nevery = 60\n"
            "[run]\nthreads = 1\n") {}
  // Two classes of eight pictures, red and blue. Sizes and shades differ; half of the files are JPEGs.
  void SetUp() override {
    TrainingTest::SetUp();
    if (IsSkipped()) return;
    const std::vector<std::pair<int, int>> sizes{{16, 24}, {24, 16}, {33, 57}, {20, 20}};
    for (int number = 0; number < 8; ++number) {
      const auto [height, width] = sizes[static_cast<std::size_t>(number % 4)];
      const auto strong = static_cast<std::uint8_t>(190 + 8 * number),
                 weak = static_cast<std::uint8_t>(20 + 5 * number);
      write("blue", number, with_a_dark_half(all_of(height, width, {weak, weak, strong})));
      write("red", number, with_a_dark_half(all_of(height, width, {strong, weak, weak})));
    }
  }
  void write(const std::string& name, int number, const Pixels& pixels) const {
    const std::string path = "flowers/" + name + "/" + std::to_string(number);
    number % 2 == 0 ? folder_.write(path + ".png", png_file(pixels)) : folder_.write(path + ".jpg", jpeg_file(pixels));
  }
};

TEST_F(ImagesOfTwoColours, TrainEvaluateAndExport) {
  const Json report = report_of("-n 2", "run");
  ASSERT_TRUE(report.is_object());
  EXPECT_LT(report.at("losses").back().get<double>(), 0.5 * report.at("losses").front().get<double>());
  EXPECT_EQ(report.at("val_accuracy"), 1.0);
  std::vector<std::int64_t> evaluated;
  for (const Json& line : json_lines(folder_.read("run/metrics.jsonl")))
    if (line.contains("val_accuracy")) evaluated.push_back(line.at("step").get<std::int64_t>());
  ASSERT_FALSE(evaluated.empty());
  EXPECT_EQ(evaluated.front(), 30);

  const Json inputs = Json::parse(folder_.read("run/preprocessor_config.json"));
  EXPECT_EQ(inputs.at("num_channels"), 3);
  EXPECT_EQ(inputs.at("crop_size").at("height"), 16);
  EXPECT_EQ(inputs.at("crop_size").at("width"), 24);
  EXPECT_EQ(inputs.at("id2label").at("0"), "blue");
  EXPECT_EQ(inputs.at("id2label").at("1"), "red");
  const Ran exported = folder_.zero("export run -o exported");
  EXPECT_EQ(exported.status, 0) << exported.errors;
  EXPECT_EQ(folder_.read("exported/preprocessor_config.json"), folder_.read("run/preprocessor_config.json"));
  EXPECT_GT(std::filesystem::file_size(folder_.path() / "exported/model.safetensors"), 1000U);
}

TEST_F(ImagesOfTwoColours, FlipsChangeTraining) {
  const auto losses_of = [&](const std::string& flags, const std::string& run) {
    return report_of("--train.steps 3 --train.eval_every 0 --checkpoint.every 0 " + flags, run).at("losses");
  };
  const Json flipped = losses_of("", "flipped");
  EXPECT_EQ(losses_of("", "again"), flipped) << "drawn from the seed";
  EXPECT_NE(losses_of("--data.augment none", "plain"), flipped);
}

}  // namespace
}  // namespace zero
