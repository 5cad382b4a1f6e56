#include "zero/page/comparison.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/page/run_on_disk.h"

namespace zero::page {
namespace {

class ComparisonTest : public testing::Test {
 protected:
  ComparisonTest() : runs_{read_run(fast_.folder()), read_run(slow_.folder())} {}
  const ComparedFigure& figure(const Comparison& comparison, std::string_view key) const {
    for (const auto& figure : comparison.figures)
      if (figure.key == key) return figure;
    ADD_FAILURE() << "no " << key;
    return comparison.figures.front();
  }
  const RunOnDisk fast_{"fast", {.step_seconds = 0.2, .stage = 1}};
  const RunOnDisk slow_{"slow", {.report = false, .step_seconds = 0.5, .stage = 3}};
  const std::vector<RecordedRun> runs_;
};

TEST_F(ComparisonTest, EachRunHasAColumn) {
  const Comparison comparison = compare(runs_);
  EXPECT_EQ(comparison.names, (std::vector<std::string>{"fast", "slow"}));
  EXPECT_EQ(figure(comparison, "step_seconds").values[1], 0.5);
  EXPECT_EQ(figure(comparison, "utilization").values[0], 0.25);
  EXPECT_FALSE(figure(comparison, "utilization").values[1]);
}

TEST_F(ComparisonTest, ARowThatNoRunHasIsLeftOut) {
  for (const auto& figure : compare(runs_).figures) EXPECT_NE(figure.key, "accuracy");
}

TEST_F(ComparisonTest, AccuracyIsARowWhereARunHasOne) {
  slow_.write("metrics.jsonl", "{\"step\": 3, \"val_accuracy\": 0.875}\n");
  const std::array runs{read_run(slow_.folder())};
  EXPECT_EQ(format_figure(Unit::kFraction, figure(compare(runs), "accuracy").values[0]), "87.5%");
}

TEST_F(ComparisonTest, PerplexityIsARowWhereARunHasOne) {
  slow_.write("metrics.jsonl", "{\"step\": 3, \"val_perplexity\": 6.5}\n");
  const std::array runs{read_run(slow_.folder())};
  EXPECT_EQ(figure(compare(runs), "perplexity").values[0], 6.5);
}

TEST_F(ComparisonTest, KeysThatDifferAreNamedButNotTheFolder) {
  std::vector<std::string> differing;
  for (const ComparedKey& key : compare(runs_).keys)
    if (key.differs) differing.push_back(key.key);
  EXPECT_EQ(differing, (std::vector<std::string>{"zero.stage"}));
}

TEST_F(ComparisonTest, TheTableSaysFiguresChangesAndKeys) {
  const std::string text = to_text(compare(runs_));
  EXPECT_NE(text.find("slow (not done)"), std::string::npos) << text;
  EXPECT_NE(text.find("time of a step (median)"), std::string::npos) << text;
  EXPECT_NE(text.find("500 ms  x 2.5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("keys that differ\n  zero.stage  1  3\n"), std::string::npos) << text;
}

TEST_F(ComparisonTest, JsonHasFiguresByRunAndKeysThatDiffer) {
  const auto json = to_json(compare(runs_));
  EXPECT_EQ(json["runs"][0]["figures"]["step_seconds"], 0.2);
  EXPECT_TRUE(json["runs"][1]["figures"]["utilization"].is_null());
  EXPECT_EQ(json["runs"][1]["done"], false);
  EXPECT_EQ(json["differing_keys"]["zero.stage"][1], "3");
}

TEST(ComparisonFormat, ChangesAreFromTheFirstRun) {
  const ComparedFigure figure{"", "", Unit::kBytes, -1, {100, 112, 34, 1000, 100.01, 101.25, std::nullopt, 0}};
  const std::vector<std::string> expected{"", "+12%", "-66%", "x 10", "=", "+1.2%", "", "-100%"};
  for (std::size_t run = 0; run < expected.size(); ++run) EXPECT_EQ(format_change(figure, run), expected[run]) << run;
}

TEST(ComparisonFormat, FiguresReadAsPeopleWriteThem) {
  EXPECT_EQ(format_figure(Unit::kSeconds, 0.1876), "188 ms");
  EXPECT_EQ(format_figure(Unit::kSeconds, 300), "5.0 min");
  EXPECT_EQ(format_figure(Unit::kBytes, 1536), "1.50 KiB");
  EXPECT_EQ(format_figure(Unit::kPerSecond, 4079.8), "4,080");
  EXPECT_EQ(format_figure(Unit::kNumber, 2.31977), "2.3198");
  EXPECT_EQ(format_figure(Unit::kCount, std::nullopt), "-");
  EXPECT_EQ(format_figure(Unit::kCount, 1e300), "1e+300");
  EXPECT_EQ(format_figure(Unit::kBytes, std::nan("")), "-");
}

TEST(ComparisonFormat, ValuesCannotCommandTheTerminal) {
  Comparison comparison{
      {"a\x1b[31m", "b"}, {true, true}, {}, {{"data.path", {"\"x\x1b[2J\"", std::string(90, 'y')}, true}}};
  comparison.figures.push_back({"steps", "steps", Unit::kCount, 0, {1, 2}});
  const std::string text = to_text(comparison);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find(std::string(60, 'y')), std::string::npos);
}

}  // namespace
}  // namespace zero::page
