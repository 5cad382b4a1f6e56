#include "app/report/page/metrics_file.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/report/page/run_on_disk.h"
#include "tests/support/temporary_folder.h"

namespace zero::page {
namespace {

class MetricsFileTest : public testing::Test {
 protected:
  MetricsFile read(const std::string& text) const { return read_metrics(folder_.write("metrics.jsonl", text)); }
  TemporaryFolder folder_;
};

TEST_F(MetricsFileTest, EveryNumberBecomesCurve) {
  const MetricsFile metrics = read(step_line(1, 10, 5, 0.5) + step_line(2, 10.5, 4, 0.5));
  ASSERT_NE(metrics.curve("loss"), nullptr);
  EXPECT_EQ(*metrics.curve("loss"), (std::vector<CurvePoint>{{1, 5}, {2, 4}}));
  EXPECT_EQ(metrics.curve("memory_bytes.moment")->back().value, 2048);
  EXPECT_EQ(metrics.curve("phase_seconds.forward")->front().value, 0.1);
  EXPECT_EQ(metrics.curve("elapsed_seconds")->back().value, 1.0);
  EXPECT_EQ(metrics.step_seconds, (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(metrics.curve("step"), nullptr);
  EXPECT_EQ(metrics.num_lines, 2);
}

TEST_F(MetricsFileTest, LastValueMayBeNull) {
  const MetricsFile metrics =
      read("{\"step\": 1, \"loss\": 3, \"lr\": null}\n{\"step\": 2, \"loss\": null, \"lr\": 1}\n");
  EXPECT_TRUE(std::isnan(metrics.last("loss").value()));
  EXPECT_EQ(metrics.last("lr"), 1);
  EXPECT_FALSE(metrics.last("val_loss"));
  EXPECT_EQ(*metrics.curve("loss"), (std::vector<CurvePoint>{{1, 3}}));
}

TEST_F(MetricsFileTest, UnknownFiguresBecomeCurves) {
  EXPECT_EQ(read(R"({"step": 7, "val_accuracy": 0.5})"
                 "\n")
                .curve("val_accuracy")
                ->front(),
            (CurvePoint{7, 0.5}));
}

// Many ranks get only a table.
TEST_F(MetricsFileTest, FewRanksGetCurves) {
  const auto line = [](std::size_t ranks) {
    return nlohmann::json{{"step", 1}, {"ranks", {{"steps", 1}, {"wait_seconds", std::vector<double>(ranks, 0.5)}}}}
               .dump() +
           '\n';
  };
  const MetricsFile few = read(line(MetricsFile::kMostRankCurves));
  EXPECT_EQ(few.curve("ranks.wait_seconds.7")->front(), (CurvePoint{1, 0.5}));
  EXPECT_EQ(few.curve("ranks.steps"), nullptr);
  const MetricsFile many = read(line(2000));
  EXPECT_EQ(many.num_damaged, 0);
  EXPECT_TRUE(many.curves.empty());
  EXPECT_EQ(many.ranks.num_ranks(), RankTable::kMostRanks);
}

TEST_F(MetricsFileTest, CountsDamagedLinesAndReadsOthers) {
  const std::string damaged = "{\"step\": 2, \"lo\n[1, 2]\n{\"loss\": 3}\n\n{\"step\": \"x\"}\n";
  const MetricsFile metrics = read(step_line(1, 10, 5, 0.5) + damaged + step_line(3, 11, 4, 0.5));
  EXPECT_EQ(metrics.num_damaged, 5);
  EXPECT_EQ(metrics.num_lines, 7);
  EXPECT_EQ(metrics.curve("loss")->size(), 2U);
}

TEST_F(MetricsFileTest, UnfinishedLastLineIsNoDamage) {
  const MetricsFile metrics = read(step_line(1, 10, 5, 0.5) + "{\"t\": 11, \"st");
  EXPECT_TRUE(metrics.ends_in_half_a_line);
  EXPECT_EQ(metrics.num_damaged, 0);
  EXPECT_EQ(metrics.num_lines, 1);
}

TEST_F(MetricsFileTest, EndlessLineIsOneDamagedLine) {
  const std::string endless = "{\"step\": 1, \"x\": \"" + std::string(3 * MetricsFile::kMostLineBytes, 'x') + "\"}\n";
  const MetricsFile metrics = read(endless + step_line(2, 10, 5, 0.5));
  EXPECT_EQ(metrics.num_damaged, 1);
  EXPECT_EQ(metrics.curve("loss")->size(), 1U);
}

TEST_F(MetricsFileTest, DeepLinesDoNoHarm) {
  EXPECT_EQ(read("{\"step\": 1, \"x\": " + std::string(30'000, '[') + std::string(30'000, ']') + "}\n").num_damaged, 0);
}

TEST_F(MetricsFileTest, LimitsNumberOfCurves) {
  std::string line = "{\"step\": 1";
  for (int i = 0; i < 500; ++i) line += fmt::format(", \"x{}\": 1", i);
  EXPECT_EQ(read(line + "}\n").curves.size(), MetricsFile::kMostCurves);
}

TEST_F(MetricsFileTest, EventsSayWhatHappenedAndWhy) {
  const MetricsFile metrics =
      read(R"({"t": 5, "step": 12, "event": "skipped", "reason": "not finite", "detail": "h.0.w", )"
           R"("loss": null, "limit": null})"
           "\n"
           R"({"t": 6, "step": 20, "event": "rewound", "reason": "norm spike", "from": 33, "samples": 9, )"
           R"("loss": 2, "grad_norm": 93.5, "limit": 3.25})"
           "\n");
  ASSERT_EQ(metrics.events.size(), 2U);
  EXPECT_EQ(metrics.events[0].kind, "skipped");
  EXPECT_EQ(metrics.events[0].text, "not finite, h.0.w");
  EXPECT_EQ(metrics.events[1].step, 20);
  EXPECT_EQ(metrics.events[1].text, "step 33: norm spike: gradient norm 93.5, beyond 3.25; back to step 20");
}

TEST_F(MetricsFileTest, EventsBeyondTheMostAreCounted) {
  std::string text;
  for (std::size_t i = 0; i < MetricsFile::kMostEvents + 5; ++i)
    text += fmt::format("{{\"step\": {}, \"event\": \"skipped\", \"reason\": \"not finite\"}}\n", i);
  const MetricsFile metrics = read(text);
  EXPECT_EQ(metrics.events.size(), MetricsFile::kMostEvents);
  EXPECT_EQ(metrics.num_events_beyond, 5);
}

TEST_F(MetricsFileTest, UnexplainedSecondsAreAPause) {
  const MetricsFile metrics =
      read(step_line(1, 10, 5, 0.5) + step_line(2, 10.5, 5, 0.5) + step_line(3, 31, 5, 0.5) +
           "{\"t\": 51, \"step\": 3, \"val_loss\": 2, \"eval_seconds\": 20}\n" + step_line(4, 51.5, 5, 0.5));
  ASSERT_EQ(metrics.events.size(), 1U);
  EXPECT_EQ(metrics.events[0].kind, "pause");
  EXPECT_EQ(metrics.events[0].step, 3);
  EXPECT_EQ(metrics.events[0].text.substr(0, 20), "20 s before step 3 t");
}

TEST_F(MetricsFileTest, MissingFileIsEmpty) {
  const MetricsFile metrics = read_metrics(folder_ / "none.jsonl");
  EXPECT_EQ(metrics.num_lines, 0);
  EXPECT_TRUE(metrics.curves.empty());
}

}  // namespace
}  // namespace zero::page
