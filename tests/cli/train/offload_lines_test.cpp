// The lines of `zero train` about its transfers and its limits, with and without states off the device.
#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/training_test.h"
#include "tests/support/json_lines.h"

namespace zero {
namespace {

constexpr const char* kConfig = R"([model]
layers = 2
width = 64
heads = 2
context = 32
vocab = 256
[data]
path = "input.txt"
validation = 0
[train]
steps = 6
batch = 1
eval_every = 0
[schedule]
warmup = 0
[checkpoint]
every = 0
[run]
dir = "run"
)";

class OffloadLines : public TrainingTest {
 protected:
  OffloadLines() : TrainingTest(kConfig) {}
  std::string train(const std::string& flags) const { return train_without_disk("--zero.disk . " + flags); }
  std::string train_without_disk(const std::string& flags) const {
    const Ran ran = folder_.zero("train c.toml -n 2 --overwrite " + flags, "timeout 250");
    EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
    return ran.output;
  }
  nlohmann::json report() const { return nlohmann::json::parse(folder_.read("run/report.json"), nullptr, false); }
  // Of steps and evaluations.
  std::vector<nlohmann::json> metrics() const {
    std::vector<nlohmann::json> lines = json_lines(folder_.read("run/metrics.jsonl"));
    std::erase_if(lines, [](const nlohmann::json& line) { return line.contains("event"); });
    return lines;
  }
  // The number after `words` in the line that begins with `begin`.
  static std::string in_line(const std::string& output, const std::string& begin, const std::string& words) {
    const std::size_t at = output.find("\n" + begin);
    if (at == std::string::npos) return "";
    const std::string line = output.substr(at + 1, output.find('\n', at + 1) - at - 1);
    const std::size_t found = line.find(words);
    return found == std::string::npos ? "" : line.substr(found + words.size());
  }
  // Joins indented lines with the line above.
  static std::string unwrapped(std::string output) {
    for (std::size_t at; (at = output.find("\n    ")) != std::string::npos;) output.replace(at, 5, " ");
    return output;
  }
  static bool begins_with_a_resource(const std::string& text) {
    constexpr std::array<const char*, 5> kResources{"compute", "link up", "link down", "disk", "update"};
    return std::ranges::any_of(kResources, [&](const char* name) { return text.starts_with(name); });
  }
};
using OffloadLinesSlow = OffloadLines;

TEST_F(OffloadLinesSlow, MomentsOnDiskNameTheBottleneck) {
  const std::string output = train("--zero.optimizer '{disk = 1}'");
  EXPECT_TRUE(begins_with_a_resource(in_line(output, "states of a rank: ", " a step, bound by "))) << output;
  EXPECT_EQ(in_line(output, "  they stay there, however much memory is free: ", "free: "),
            "fractions say where (zero.parameter, gradient, optimizer)")
      << output;
  EXPECT_TRUE(begins_with_a_resource(in_line(output, "step 3: ", " a step are expected, bound by "))) << output;
  EXPECT_TRUE(begins_with_a_resource(in_line(unwrapped(output), "  predicted after three steps: ", "bound by ")))
      << output;
  EXPECT_LT(output.find("states of a rank"), output.find("step 1/6"));
  EXPECT_GT(report()["predicted"]["seconds"].get<double>(), 0);
}

// Metrics have each step's bytes, and the report has the medians.
TEST_F(OffloadLinesSlow, MetricsReportMovedBytes) {
  train("--zero.optimizer '{disk = 1}'");
  const auto lines = metrics();
  ASSERT_EQ(lines.size(), 6U);
  const auto& last = lines.back()["transfers"]["disk"];
  EXPECT_GT(last["read_bytes"].get<std::int64_t>(), 0);
  EXPECT_GT(last["written_bytes"].get<std::int64_t>(), 0);
  EXPECT_GE(last["exposed_seconds"].get<double>(), 0);
  EXPECT_FALSE(lines.back()["transfers"].contains("link_up"));
  EXPECT_EQ(report()["transfers"][0]["disk"]["written_bytes"], last["written_bytes"]) << "steps are alike";
}

TEST_F(OffloadLinesSlow, MovableStatesGiveNoReason) {
  const std::string output = train("--zero.device_memory min");
  EXPECT_TRUE(begins_with_a_resource(in_line(output, "states of a rank: ", " a step, bound by "))) << output;
  EXPECT_EQ(output.find("they stay there"), std::string::npos) << output;
}

TEST_F(OffloadLinesSlow, ShortRunPredictsNothing) {
  const std::string output = train("--zero.optimizer '{disk = 1}' --train.steps 3");
  EXPECT_EQ(output.find("predicted"), std::string::npos) << output;
  EXPECT_TRUE(report()["predicted"].is_null());
}

TEST_F(OffloadLinesSlow, ResidentRunMentionsNoTiers) {
  const std::string output = train("");
  for (const char* words : {"states of a rank", "bound by", "predicted", "however much memory"})
    EXPECT_EQ(output.find(words), std::string::npos) << output;
  for (const auto& line : metrics()) EXPECT_FALSE(line.contains("transfers")) << line;
  EXPECT_FALSE(report().contains("transfers"));
}

// A device budget is enough for a run to probe rates.
TEST_F(OffloadLinesSlow, NextRunReusesProbedRates) {
  constexpr const char* kKept = ".cache/zero.cpp/rates.json";
  train_without_disk("--zero.device_memory 900KiB");
  EXPECT_GT(report()["host_memory_bytes"][0]["total"].get<std::int64_t>(), 0) << "so states were placed on the host";
  const std::string kept = folder_.read(kKept);
  EXPECT_NE(kept.find("update_numel"), std::string::npos);
  train_without_disk("--zero.device_memory 900KiB");
  EXPECT_EQ(folder_.read(kKept), kept) << "another probe would give other rates";
}

TEST_F(OffloadLinesSlow, TwoDisksHoldWhatOneHolds) {
  const std::string everything =
      " --zero.optimizer '{disk = 1}' --zero.gradient '{disk = 1}' --zero.parameter '{disk = 1}'";
  for (const char* name : {"one", "other"}) std::filesystem::create_directory(folder_.path() / name);
  train_without_disk("--zero.disk one" + everything);
  const nlohmann::json one = report();
  train_without_disk("--zero.disk '[\"one\", \"other\"]'" + everything);
  const nlohmann::json two = report();
  EXPECT_EQ(two["parameters_sha256"], one["parameters_sha256"]);
  EXPECT_NE(two["disk"].get<std::string>().find("2 paths"), std::string::npos) << two["disk"];
  // The bytes read may differ, because parameters are not read from disk while their tile is still being written.
  EXPECT_EQ(two["transfers"][0]["disk"]["written_bytes"], one["transfers"][0]["disk"]["written_bytes"]);
  EXPECT_GT(two["transfers"][0]["disk"]["read_bytes"].get<std::int64_t>(), 0);
}

}  // namespace
}  // namespace zero
