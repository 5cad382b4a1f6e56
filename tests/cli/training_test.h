// TrainingTest: a folder with a configuration and a text, for verbs that need libtorch. Skipped without libtorch.
#pragma once

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"
#include "tests/support/json_lines.h"

namespace zero {

// A GPT of one layer that learns input.txt. `tables` are more tables of TOML, `data` more keys of [data].
inline std::string small_gpt(const std::string& tables, const std::string& data = "", int width = 16) {
  return "[model]\nlayers = 1\nwidth = " + std::to_string(width) +
         "\nheads = 2\ncontext = 16\nvocab = 256\n[data]\npath = \"input.txt\"\n" + data + tables;
}

// Tables of a run with a constant learning rate, so a shorter run begins like a longer one. `train` has keys of
// [train].
inline std::string at_one_rate(const std::string& train) {
  return "[train]\n" + train + "[schedule]\nname = \"constant\"\nwarmup = 0\n[run]\nthreads = 1\n";
}

class TrainingTest : public testing::Test {
 protected:
  // Writes `config` to c.toml. Its data is input.txt.
  explicit TrainingTest(const std::string& config) : config_(config) {}
  void SetUp() override {
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and this verb needs it";
    folder_.write("c.toml", config_);
    std::string text;
    while (text.size() < 8000) text += "all the world's a stage, and all the men and women merely players. ";
    folder_.write("input.txt", text);
  }
  // Runs `zero train c.toml` in the folder `run`, and returns its report.json.
  nlohmann::json report_of(const std::string& flags, const std::string& run) const {
    const Ran ran = folder_.zero("train c.toml --run.dir " + run + " " + flags, "timeout 250");
    EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
    return nlohmann::json::parse(folder_.read(run + "/report.json"), nullptr, /*allow_exceptions=*/false);
  }
  // The newest "ranks" in the run's metrics.jsonl, or null if there are none.
  nlohmann::json last_ranks(const std::string& run) const {
    nlohmann::json found;
    for (const nlohmann::json& line : json_lines(folder_.read(run + "/metrics.jsonl")))
      if (line.contains("ranks")) found = line.at("ranks");
    return found;
  }
  Folder folder_;

 private:
  std::string config_;
};

}  // namespace zero
