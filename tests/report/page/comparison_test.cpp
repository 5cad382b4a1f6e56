#include "app/report/page/comparison.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "tests/report/page/run_on_disk.h"

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

TEST_F(ComparisonTest, LeavesOutRowsWithoutRuns) {
  for (const auto& figure : compare(runs_).figures) EXPECT_NE(figure.key, "accuracy");
}

TEST_F(ComparisonTest, AccuracyHasRowIfMeasured) {
  slow_.write("metrics.jsonl", "{\"step\": 3, \"val_accuracy\": 0.875}\n");
  const std::array runs{read_run(slow_.folder())};
  EXPECT_EQ(format_figure(Unit::kFraction, figure(compare(runs), "accuracy").values[0]), "87.5%");
}

TEST_F(ComparisonTest, AveragedWeightsHaveOwnRows) {
  slow_.write("metrics.jsonl",
              "{\"step\": 3, \"val_loss\": 2, \"val_accuracy\": 0.5}\n{\"step\": 3, \"val_loss_ema\": 1, "
              "\"val_accuracy_ema\": 0.75, \"val_perplexity_ema\": 3}\n");
  const std::array runs{read_run(slow_.folder())};
  const auto compared = compare(runs);
  EXPECT_EQ(figure(compared, "accuracy").values[0], 0.5);
  EXPECT_EQ(figure(compared, "accuracy_ema").values[0], 0.75);
  EXPECT_EQ(figure(compared, "val_loss_ema").values[0], 1);
  EXPECT_EQ(figure(compared, "perplexity_ema").values[0], 3);
}

TEST_F(ComparisonTest, PerplexityHasRowIfMeasured) {
  slow_.write("metrics.jsonl", "{\"step\": 3, \"val_perplexity\": 6.5}\n");
  const std::array runs{read_run(slow_.folder())};
  EXPECT_EQ(figure(compare(runs), "perplexity").values[0], 6.5);
}

TEST_F(ComparisonTest, NamesDifferingKeysExceptFolder) {
  std::vector<std::string> differing;
  for (const ComparedKey& key : compare(runs_).keys)
    if (key.differs) differing.push_back(key.key);
  EXPECT_EQ(differing, (std::vector<std::string>{"zero.stage"}));
}

TEST_F(ComparisonTest, TableShowsFiguresChangesAndKeys) {
  const std::string text = to_text(compare(runs_));
  EXPECT_NE(text.find("slow (not done)"), std::string::npos) << text;
  EXPECT_NE(text.find("time of a step (median)"), std::string::npos) << text;
  EXPECT_NE(text.find("500 ms  x 2.5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("keys that differ\n  zero.stage  1  3\n"), std::string::npos) << text;
}

TEST_F(ComparisonTest, JsonHasFiguresAndDifferingKeys) {
  const auto json = to_json(compare(runs_));
  EXPECT_EQ(json["runs"][0]["figures"]["step_seconds"], 0.2);
  EXPECT_TRUE(json["runs"][1]["figures"]["utilization"].is_null());
  EXPECT_EQ(json["runs"][1]["done"], false);
  EXPECT_EQ(json["differing_keys"]["zero.stage"][1], "3");
}

// The utilization of recorded runs in one comparison, and the note about it.
class UtilizationTest : public testing::Test {
 protected:
  ComparedFigure of(const std::vector<RunContents>& contents) {
    std::vector<RecordedRun> runs;
    for (const RunContents& its : contents) {
      folders_.push_back(std::make_unique<RunOnDisk>(fmt::format("run-{}", folders_.size()), its));
      runs.push_back(read_run(folders_.back()->folder()));
    }
    comparison_ = compare(runs);
    return *std::ranges::find(comparison_.figures, "utilization", &ComparedFigure::key);
  }
  static constexpr const char* kHighest = "against the fastest matrix product that one of these runs probed";

  std::vector<std::unique_ptr<RunOnDisk>> folders_;
  Comparison comparison_;
};

TEST_F(UtilizationTest, EqualStepsHaveEqualUtilization) {
  const ComparedFigure both = of({{.utilization = 0.25, .peak_flops = 4e10}, {.utilization = 0.5, .peak_flops = 2e10}});
  EXPECT_DOUBLE_EQ(*both.values[0], 0.25);
  EXPECT_DOUBLE_EQ(*both.values[1], 0.25) << "both use the higher probed peak";
  EXPECT_EQ(format_change(both, 1), "=");
}

// The runs' own probes do not matter.
TEST_F(UtilizationTest, SlowerStepsHaveLess) {
  const ComparedFigure both = of({{.step_seconds = 0.2, .utilization = 0.25, .peak_flops = 4e10},
                                  {.step_seconds = 0.25, .utilization = 0.4, .peak_flops = 2e10}});
  EXPECT_DOUBLE_EQ(*both.values[1], 0.2);
  EXPECT_EQ(format_change(both, 1), "-20%");
}

// The runs have different numbers of ranks, so the reference is the peak of one rank.
TEST_F(UtilizationTest, OtherRankCountsUseRankPeak) {
  const ComparedFigure both =
      of({{.utilization = 0.4, .peak_flops = 3e10, .world = 1}, {.utilization = 0.3, .peak_flops = 8e10, .world = 2}});
  EXPECT_DOUBLE_EQ(*both.values[0], 0.3);
  EXPECT_DOUBLE_EQ(*both.values[1], 0.3);
}

// The ranks share cores, so the reference is the peak that they reached together.
TEST_F(UtilizationTest, SharedCoresUseJointPeak) {
  const ComparedFigure both =
      of({{.utilization = 0.25, .peak_flops = 4e10, .world = 2}, {.utilization = 0.3, .peak_flops = 3e10, .world = 4}});
  EXPECT_DOUBLE_EQ(*both.values[0], 0.25);
  EXPECT_DOUBLE_EQ(*both.values[1], 0.225) << "two cores do not twice as much for four ranks";
}

// The runs have other machines, threads or devices.
TEST_F(UtilizationTest, OtherHardwareUsesOwnPeak) {
  const RunContents first{.utilization = 0.25, .peak_flops = 4e10};
  for (const RunContents& other : {RunContents{.utilization = 0.5, .peak_flops = 2e10, .host = "other"},
                                   RunContents{.utilization = 0.5, .peak_flops = 2e10, .threads = 2},
                                   RunContents{.utilization = 0.5, .peak_flops = 2e10, .device = "cuda"}})
    EXPECT_DOUBLE_EQ(*of({first, other}).values[1], 0.5) << other.host << other.threads << other.device;
}

// A run whose report has no peak also uses its own probe.
TEST_F(UtilizationTest, SingleRunUsesOwnPeak) {
  const RunContents recorded{.utilization = 0.25, .peak_flops = 2e10}, fast{.utilization = 0.2, .peak_flops = 4e10},
      earlier{.utilization = 0.5};
  EXPECT_DOUBLE_EQ(*of({recorded}).values[0], 0.25);
  EXPECT_EQ(of({recorded}).note, "");
  const ComparedFigure all = of({fast, recorded, earlier});
  EXPECT_DOUBLE_EQ(*all.values[1], 0.125);
  EXPECT_DOUBLE_EQ(*all.values[2], 0.5);
  EXPECT_NE(all.note.find("; a run whose report has no peak_flops, against its own probe"), std::string::npos);
  EXPECT_NE(of({earlier, earlier}).note.find("against each run's own probe"), std::string::npos);
}

TEST_F(UtilizationTest, NamesHighestPeakAsReference) {
  const ComparedFigure both = of({{.peak_flops = 4e10}, {.peak_flops = 2e10}});
  EXPECT_TRUE(both.note.starts_with(kHighest)) << both.note;
  EXPECT_EQ(both.note.find("own"), std::string::npos);
  EXPECT_NE(to_text(comparison_).find(fmt::format("\nutilization: {}", kHighest)), std::string::npos);
  EXPECT_EQ(to_json(comparison_)["notes"], (nlohmann::ordered_json{{"utilization", both.note}}));
}

TEST(ComparisonFormat, ChangesAreFromTheFirstRun) {
  const ComparedFigure figure{"", "", Unit::kBytes, -1, {100, 112, 34, 1000, 100, 101.25, std::nullopt, 0, 1e5}};
  const std::vector<std::string> expected{"", "+12%", "-66%", "x 10", "=", "+1.2%", "", "-100%", "x 1,000"};
  for (std::size_t run = 0; run < expected.size(); ++run) EXPECT_EQ(format_change(figure, run), expected[run]) << run;
}

TEST(ComparisonFormat, OnlyEqualValuesAreMarkedEqual) {
  const auto change = [](double first, double value, int better = -1) {
    return format_change({"", "", Unit::kNumber, better, {first, value}, {}}, 1);
  };
  EXPECT_EQ(change(3.3931, 3.3940), "+0.03%");
  EXPECT_EQ(change(3.3940, 3.3931), "-0.03%");
  EXPECT_EQ(change(100, 100.06), "+0.06%");
  EXPECT_EQ(change(100, 100.0949), "+0.09%");
  EXPECT_EQ(change(100, 100.096), "+0.1%");
  EXPECT_EQ(change(1, std::nextafter(1.0, 2.0)), "+2e-14%");
  EXPECT_EQ(change(3.3931, 3.3931), "=");
  EXPECT_EQ(change(3.3931, 3.3940, /*better=*/0), "+0.03%");
  EXPECT_EQ(change(3.3931, 3.3931, /*better=*/0), "");
}

TEST(ComparisonFormat, FiguresReadAsPeopleWriteThem) {
  EXPECT_EQ(format_figure(Unit::kSeconds, 0.1876), "188 ms");
  EXPECT_EQ(format_figure(Unit::kSeconds, 0.9994), "999 ms");
  EXPECT_EQ(format_figure(Unit::kSeconds, 0.9996), "1 s");
  EXPECT_EQ(format_figure(Unit::kSeconds, 300), "5.0 min");
  EXPECT_EQ(format_figure(Unit::kFraction, 12.5), "1,250%");
  EXPECT_EQ(format_figure(Unit::kBytes, 1536), "1.50 KiB");
  EXPECT_EQ(format_figure(Unit::kPerSecond, 4079.8), "4,080");
  EXPECT_EQ(format_figure(Unit::kNumber, 2.31977), "2.3198");
  EXPECT_EQ(format_figure(Unit::kNumber, 0.0000317), "3.17e-05");
  EXPECT_EQ(format_figure(Unit::kNumber, 0.0), "0.0000");
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
