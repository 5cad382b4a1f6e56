// `zero train --run.timeline timeline.json`: the timeline of a run, which shows what overlaps.
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"

namespace zero {
namespace {

using Json = nlohmann::json;

constexpr const char* kConfig = R"([model]
layers = 2
width = 32
heads = 4
context = 32
[data]
path = "input.txt"
[train]
steps = 6
batch = 2
eval_every = 3
eval_batches = 1
[zero]
optimizer = {host = 1}
link_bandwidth = "1GB"
[run]
threads = 1
timeline = "timeline.json"
)";

class TimelineOfRun : public TrainingTest {
 protected:
  TimelineOfRun() : TrainingTest(kConfig) {}
  Ran train(const std::string& flags) const {
    const Ran ran = folder_.zero("train c.toml --run.dir run " + flags, "timeout 250");
    EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
    return ran;
  }
  Json trace() const { return Json::parse(folder_.read("run/timeline.json"), nullptr, /*allow_exceptions=*/false); }
};

std::vector<Json> spans_of(const Json& trace) {
  std::vector<Json> spans;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") spans.push_back(event);
  }
  return spans;
}

int count(const Json& trace, const std::string& name, int rank = 0) {
  int found = 0;
  for (const Json& span : spans_of(trace)) found += span.at("name") == name && span.at("pid") == rank;
  return found;
}

TEST_F(TimelineOfRun, HasThreeStepsOfEachRank) {
  const Ran ran = train("-n 2");
  EXPECT_NE(ran.output.find("timeline: run/timeline.json"), std::string::npos) << ran.output;
  const Json json = trace();
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json.at("otherData").at("lost_spans"), 0);
  std::map<int, std::set<std::string>> rows;
  for (const Json& span : spans_of(json)) {
    EXPECT_GE(span.at("ts").get<double>(), 0);
    EXPECT_GE(span.at("dur").get<double>(), 0);
    rows[span.at("pid")].insert(span.at("cat"));
  }
  ASSERT_EQ(rows.size(), 2u);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(rows[rank], (std::set<std::string>{"compute", "gather", "reduce", "update", "link up", "link down"}));
    for (const char* phase : {"forward", "backward", "step"}) EXPECT_EQ(count(json, phase, rank), 3) << phase;
    EXPECT_EQ(count(json, "evaluate", rank), 1) << "after the third step, between the second and the fourth";
    EXPECT_GE(count(json, "gather transformer.h.0", rank), 3);
    EXPECT_EQ(count(json, "reduce transformer.h.1", rank), 3);
  }
}

// The timeline has at most as many steps as the run.
TEST_F(TimelineOfRun, HasTheRequestedSteps) {
  train("--run.timeline_steps 2");
  EXPECT_EQ(count(trace(), "forward"), 2);
  train("--run.timeline_steps 100 --overwrite");
  EXPECT_EQ(count(trace(), "forward"), 5) << "all but the first";
  train("--train.steps 1 --overwrite");
  EXPECT_EQ(count(trace(), "forward"), 1) << "the run has no other step";
}

// Each micro-batch has one forward pass.
TEST_F(TimelineOfRun, HasDataWaitsAndForwards) {
  train("--train.accumulate 2");
  EXPECT_EQ(count(trace(), "forward"), 6);
  EXPECT_EQ(count(trace(), "backward"), 6);
  EXPECT_EQ(count(trace(), "wait data"), 6);
  EXPECT_EQ(count(trace(), "step"), 3);
}

TEST_F(TimelineOfRun, DefaultIsTheFourthStep) {
  const Ran ran = train("-n 2 --run.timeline ''");
  EXPECT_EQ(ran.output.find("timeline"), std::string::npos);
  for (const int rank : {0, 1})
    for (const char* phase : {"forward", "backward", "step"}) EXPECT_EQ(count(trace(), phase, rank), 1) << phase;
  EXPECT_EQ(count(trace(), "evaluate"), 0) << "the evaluation follows the third step";
  EXPECT_LT(std::filesystem::file_size(folder_.path() / "run/timeline.json"), 1U << 16);
}

// Servers have no timeline.
TEST_F(TimelineOfRun, ServedRunRemovesTheOldOne) {
  folder_.write("c.toml",
                "[model]\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\n[data]\npath = \"input.txt\"\n"
                "[train]\nsteps = 5\nbatch = 2\neval_batches = 1\n[run]\nthreads = 1\n");
  train("-n 2");
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "run/timeline.json"));
  train("-n 2 --sync.servers 1 --overwrite");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run/timeline.json"));
}

TEST_F(TimelineOfRun, DoesNotOverwriteTheReport) {
  const Ran ran = folder_.zero("train c.toml --run.dir run --run.timeline report.json", "timeout 250");
  EXPECT_NE(ran.status, 0);
  EXPECT_NE(ran.errors.find("run.timeline = \"report.json\""), std::string::npos) << ran.errors;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run"));
}

}  // namespace
}  // namespace zero
