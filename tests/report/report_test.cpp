#include "app/report/report.h"

#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/report/screen/wrapped.h"
#include "tests/support/one_line.h"

namespace zero {
namespace {

using nlohmann::json;

RunReport some_report() {
  RunReport r{.model = "gpt2", .dtype = "fp32", .steps = {.done = 5}};
  r.engine = {.world = 2, .stage = 3, .transport = "shared_memory"};
  r.engine.num_parameters = 1000;
  r.steps.losses = {5.5F, 5.0F, 4.5F, 4.0F, 3.5F};
  r.steps.grad_norms = {1, 2, 3, 4, 5};
  r.steps.seconds = {9, 8, 7, 0.2, 0.4};
  r.validation.loss = 3.25;
  r.validation.present = true;
  r.work.tokens = 600;
  r.work.flops = 3e9;
  r.parameters_sha256 = "ab";
  r.engine.state_formula_bytes = 8000;
  r.engine.sent_formula_bytes = 6000;
  r.machine.threads = 1;
  for (int rank = 0; rank < 2; ++rank) {
    RankReport mine{.peak_rss = 100 + rank,
                    .steady_rss = 90,
                    .steady_pss = 80,
                    .sent_bytes_per_step = 6000,
                    .received_bytes_per_step = 6001};
    mine.startup_s = 1.5 + rank;
    mine.peak_flops = 1e10;
    mine.memory.device[MemoryTag::kParameter] = 2000;
    mine.memory.device[MemoryTag::kMoment] = 4000;
    mine.peak_memory.device[MemoryTag::kGathered] = 500;
    mine.peak_memory_total.device = 7000;
    r.ranks.push_back(mine);
  }
  return r;
}

TEST(Report, HasEveryKeyOfTheContract) {
  const auto report = json::parse(to_json(some_report()));
  for (const char* key : {"system",
                          "version",
                          "model",
                          "num_parameters",
                          "world",
                          "stage",
                          "dtype",
                          "steps",
                          "losses",
                          "loss_bits",
                          "grad_norms",
                          "val_loss",
                          "step_seconds",
                          "step_s_median",
                          "step_s_min",
                          "tokens_per_step",
                          "tokens_per_second",
                          "startup_s",
                          "parameters_sha256",
                          "peak_rss",
                          "steady_rss",
                          "steady_pss",
                          "memory_bytes",
                          "peak_memory_bytes",
                          "sent_bytes_per_step",
                          "received_bytes_per_step",
                          "formula",
                          "transport",
                          "threads",
                          "flops_per_step",
                          "peak_flops",
                          "utilization",
                          "utilization_is",
                          "date",
                          "host",
                          "command",
                          "libtorch",
                          "processor",
                          "cores",
                          "configuration"}) {
    EXPECT_TRUE(report.contains(key)) << key;
  }
  EXPECT_EQ(report["system"], "zero.cpp");
  EXPECT_EQ(report["formula"], (json{{"state_bytes", 8000.0}, {"sent_bytes", 6000.0}}));
}

TEST(Report, LanguageModelHasPerplexity) {
  RunReport report = some_report();
  EXPECT_FALSE(json::parse(to_json(report)).contains("val_perplexity"));
  report.validation.perplexity = 6.5;
  EXPECT_EQ(json::parse(to_json(report))["val_perplexity"], 6.5);
  EXPECT_NE(summary(report).find("val_perplexity 6.500"), std::string::npos) << summary(report);
}

TEST(Report, ListsOneEntryARank) {
  const auto report = json::parse(to_json(some_report()));
  EXPECT_EQ(report["peak_rss"], (json{100, 101}));
  EXPECT_EQ(report["received_bytes_per_step"], (json{6001, 6001}));
  ASSERT_EQ(report["memory_bytes"].size(), 2U);
  EXPECT_EQ(report["memory_bytes"][1]["moment"], 4000);
  EXPECT_EQ(report["memory_bytes"][1]["total"], 6000);
  EXPECT_EQ(report["peak_memory_bytes"][0]["gathered"], 500);
  EXPECT_EQ(report["peak_memory_bytes"][0]["total"], 7000) << "the peak of the sum, not the sum of the peaks";
}

TEST(Report, CopiesAddTrafficBetweenThem) {
  EXPECT_FALSE(json::parse(to_json(some_report())).contains("copies"));
  RunReport grouped = some_report();
  grouped.engine.copies = {.number = 2, .planned_sent_bytes = 400, .sent_formula_bytes = 390};
  for (RankReport& rank : grouped.ranks) {
    rank.sent_between_copies_per_step = 400;
    rank.sent_between_copies_total = 1200;
  }
  EXPECT_EQ(json::parse(to_json(grouped))["copies"], (json{{"number", 2},
                                                           {"ranks_of_each", 1},
                                                           {"sent_bytes_per_step", {400, 400}},
                                                           {"sent_bytes_total", {1200, 1200}},
                                                           {"planned_sent_bytes", 400},
                                                           {"formula", {{"sent_bytes", 390.0}}}}));
  EXPECT_NE(summary(grouped).find("2 copies of the model on 1 rank each"), std::string::npos) << summary(grouped);
}

TEST(Report, SecondaryGroupsHaveTheirBytes) {
  EXPECT_FALSE(json::parse(to_json(some_report())).contains("secondary"));
  RunReport kept = some_report();
  kept.engine.secondary = {.group = 2, .planned_sent_bytes = 300, .planned_sent_between_groups = 200};
  for (RankReport& rank : kept.ranks) {
    rank.sent_within_secondary_per_step = 300;
    rank.sent_between_groups_per_step = 200;
  }
  const json secondary = json::parse(to_json(kept))["secondary"];
  EXPECT_EQ(secondary["ranks_of_each"], 2);
  EXPECT_EQ(secondary["planned_sent_bytes"], 300);
  EXPECT_EQ(secondary["planned_sent_between_groups"], 200);
  for (std::size_t rank = 0; rank < kept.ranks.size(); ++rank) {
    EXPECT_EQ(secondary["sent_bytes_per_step"][rank], 300);
    EXPECT_EQ(secondary["sent_between_groups_per_step"][rank], 200);
  }
  EXPECT_NE(summary(kept).find("secondary groups of 2 ranks"), std::string::npos) << summary(kept);
}

TEST(Report, LocalStepsAddOuterStepBytes) {
  RunReport apart = some_report();
  apart.engine.copies.number = 2;
  apart.engine.outer = {.local_steps = 50, .steps = 3, .planned_sent_between_copies = 2048, .formula_bytes = 2000};
  for (RankReport& rank : apart.ranks) rank.outer_sent_between_copies = 2048;
  EXPECT_EQ(json::parse(to_json(apart))["copies"]["outer_step"], (json{{"every_steps", 50},
                                                                       {"fragments", 1},
                                                                       {"overlap", 0},
                                                                       {"sent_bytes", {2048, 2048}},
                                                                       {"planned_sent_bytes", 2048},
                                                                       {"formula", {{"sent_bytes", 2000.0}}}}));
  const std::string text = one_line(summary(apart));
  EXPECT_NE(text.find("trained apart; every 50 steps a rank sent 2.00 KiB between them"), std::string::npos) << text;
}

TEST(Report, TimesSkipFirstThreeSteps) {
  const auto report = json::parse(to_json(some_report()));
  EXPECT_DOUBLE_EQ(report["step_s_median"], 0.3);
  EXPECT_DOUBLE_EQ(report["step_s_min"], 0.2);
  EXPECT_DOUBLE_EQ(report["tokens_per_second"], 2000);
  EXPECT_EQ(report["step_seconds"].size(), 5U);
}

TEST(Report, RowsAreNotCalledTokens) {
  RunReport r = some_report();
  EXPECT_NE(one_line(summary(r)).find("2,000 tokens/s"), std::string::npos) << summary(r);
  r.work.has_tokens = false;
  const auto report = json::parse(to_json(r));
  EXPECT_DOUBLE_EQ(report["rows_per_second"], 2000);
  EXPECT_DOUBLE_EQ(report["rows_per_step"], 600);
  EXPECT_FALSE(report.contains("tokens_per_second"));
  EXPECT_NE(one_line(summary(r)).find("2,000 rows/s"), std::string::npos) << summary(r);
}

TEST(Report, HasConfigurationByKeys) {
  RunReport r = some_report();
  r.origin.configuration =
      "[train]\nsteps = 6\ndtype = \"fp32\"\n\n[zero]\noptimizer = {disk = 1}\ndisk = [\"/tmp\"]\n";
  const auto configuration = json::parse(to_json(r))["configuration"];
  EXPECT_EQ(configuration["train"]["steps"], 6);
  EXPECT_EQ(configuration["train"]["dtype"], "fp32");
  EXPECT_EQ(configuration["zero"]["optimizer"], "{disk = 1}");
  EXPECT_EQ(configuration["zero"]["disk"][0], "/tmp");
}

TEST(Report, ShortRunTimesAllSteps) {
  EXPECT_EQ(median_step_seconds({3, 1, 2}), 2);
  EXPECT_EQ(least_step_seconds({3, 1, 2}), 1);
  EXPECT_EQ(median_step_seconds({9, 9, 9, 1}), 1);
  EXPECT_EQ(median_step_seconds({}), 0);
}

TEST(Report, SaysWhatOffloadedActivationsTake) {
  RunReport r = some_report();
  EXPECT_FALSE(json::parse(to_json(r)).contains("activations_peak_bytes"));
  EXPECT_EQ(one_line(summary(r)).find("activations"), std::string::npos);
  r.machine.activations_on = "disk";
  r.ranks[1].activations_peak_bytes = 3 << 20;
  r.ranks[1].activations_disk_per_step = {.read_bytes = 1 << 20, .written_bytes = 2 << 20, .waited_seconds = 0.25};
  const auto report = json::parse(to_json(r));
  EXPECT_EQ(report["activations_offloaded_on"], "disk");
  EXPECT_EQ(report["activations_peak_bytes"], (json{0, 3 << 20}));
  EXPECT_EQ(report["activations_read_bytes_per_step"], (json{0, 1 << 20}));
  EXPECT_EQ(report["activations_written_bytes_per_step"], (json{0, 2 << 20}));
  EXPECT_EQ(report["activations_wait_seconds_per_step"], (json{0.0, 0.25}));
  EXPECT_NE(one_line(summary(r)).find("activations on the disk: 3.00 MiB at most; a step reads 1.00 MiB"),
            std::string::npos)
      << summary(r);
}

TEST(Report, OffloadedActivationsAreNoState) {
  RunReport r = some_report();
  r.machine.activations_on = "host";
  r.ranks[0].memory.host[MemoryTag::kActivation] = 5000;
  EXPECT_EQ(json::parse(to_json(r))["host_memory_bytes"][0]["activation"], 5000);
  EXPECT_EQ(one_line(summary(r)).find("of it on the host"), std::string::npos) << summary(r);
}

TEST(Report, ShowsHiddenAndExposedTransfers) {
  RunReport r = some_report();
  EXPECT_FALSE(json::parse(to_json(r)).contains("transfers"));
  r.ranks[0].memory.disk[MemoryTag::kMoment] = 4000;
  r.ranks[0].transfers.requests.disk = {
      .read_bytes = 8000, .written_bytes = 4000, .waited_seconds = 0.125, .busy_seconds = 0.5};
  r.ranks[1].transfers.requests.disk = {.waited_seconds = 0.5, .busy_seconds = 0.25};
  auto transfers = json::parse(to_json(r))["transfers"];
  EXPECT_EQ(transfers[0]["disk"], (json{{"read_bytes", 8000},
                                        {"written_bytes", 4000},
                                        {"busy_seconds", 0.5},
                                        {"hidden_seconds", 0.375},
                                        {"exposed_seconds", 0.125}}));
  EXPECT_EQ(transfers[1]["disk"]["hidden_seconds"], 0) << "never below 0";
  EXPECT_FALSE(transfers[0].contains("link_up")) << "this run has no link";
  EXPECT_NE(one_line(summary(r)).find("and writes 3.91 KiB, 500 ms, 75% of it hidden"), std::string::npos)
      << summary(r);

  r.ranks[0].transfers.link = {.up_bytes = 100,
                               .down_bytes = 200,
                               .busy_seconds = 1.5,
                               .waited_seconds = 0.75,
                               .up_busy_seconds = 0.5,
                               .up_waited_seconds = 0.25};
  const auto report = json::parse(to_json(r));
  EXPECT_EQ(report["transfers"][0]["link_up"],
            (json{{"bytes", 100}, {"busy_seconds", 0.5}, {"hidden_seconds", 0.25}, {"exposed_seconds", 0.25}}));
  EXPECT_EQ(report["transfers"][0]["link_down"],
            (json{{"bytes", 200}, {"busy_seconds", 1.0}, {"hidden_seconds", 0.5}, {"exposed_seconds", 0.5}}));
  EXPECT_EQ(report["link_hidden"][0], 0.5);
}

TEST(Report, PredictionAppearsBesideMeasurement) {
  RunReport r = some_report();
  r.ranks[0].memory.disk[MemoryTag::kMoment] = 4000;
  r.profile = {.exposed = 0.05, .total = 0.3};
  EXPECT_TRUE(json::parse(to_json(r))["predicted"].is_null());
  EXPECT_EQ(one_line(summary(r)).find("predicted"), std::string::npos) << "there was no prediction";
  r.predicted.emplace();
  r.predicted->busy[static_cast<std::size_t>(StepPhase::kUpdate)][static_cast<std::size_t>(requests_of(Tier::kDisk))] =
      0.25;
  EXPECT_EQ(json::parse(to_json(r))["predicted"]["seconds"], 0.25);
  EXPECT_NE(one_line(summary(r))
                .find("predicted after three steps: 250 ms a step at probed rates, bound by disk; measured "
                      "since: 300 ms, 50 ms of them exposed transfers"),
            std::string::npos)
      << summary(r);
  r.ranks[0].memory.disk = {};
  EXPECT_EQ(one_line(summary(r)).find("predicted"), std::string::npos) << "all states are on the device";
}

TEST(Report, StartupIsTheSlowestRanks) {
  EXPECT_EQ(json::parse(to_json(some_report()))["startup_s"], 2.5);
}

TEST(Report, UtilizationIsOfAllRanksTogether) {
  // 3e9 operations in 0.3 s on two ranks with 1e10 operations a second.
  const auto report = json::parse(to_json(some_report()));
  EXPECT_EQ(report["flops_per_step"], 3e9);
  EXPECT_EQ(report["peak_flops"], 2e10);
  EXPECT_DOUBLE_EQ(report["utilization"], 0.5);
}

TEST(Report, NonUtf8BytesAreReplaced) {
  RunReport report = some_report();
  report.origin.command = "zero train caf\xe9.toml";
  report.origin.configuration = "[data]\npath = [\"caf\xe9.txt\"]\n";
  const json written = json::parse(to_json(report));
  EXPECT_EQ(written["command"], "zero train caf\xef\xbf\xbd.toml");
  EXPECT_TRUE(written["configuration"]["data"].contains("path"));
}

TEST(Report, LossBitsAreTheFloats) {
  EXPECT_EQ(float_bits(1.0F), "3f800000");
  EXPECT_EQ(float_bits(-0.0F), "80000000");
  const auto report = json::parse(to_json(some_report()));
  ASSERT_EQ(report["loss_bits"].size(), 5U);
  EXPECT_EQ(report["loss_bits"][3], "40800000");
}

TEST(Report, WithoutValidationTheLossIsNull) {
  auto report = some_report();
  report.validation.present = false;
  EXPECT_TRUE(json::parse(to_json(report))["val_loss"].is_null());
}

// The summary has only the important values.
// Positions of a pipeline hold different parts of the model, so the largest formula stands beside the largest state.
TEST(Report, FormulasAreOfTheLargestRank) {
  auto report = some_report();
  report.ranks.back().state_formula_bytes = 16 << 10;
  report.ranks.back().sent_formula_bytes = 7 << 10;
  const auto text = one_line(summary(report));
  EXPECT_NE(text.find("(formula 16.0 KiB)"), std::string::npos) << text;
  EXPECT_NE(text.find("a step (formula 7.00 KiB)"), std::string::npos) << text;
}

TEST(Report, PlansAndFormulasAreByRank) {
  auto report = some_report();
  report.engine.planned_sent_bytes = 5000;  // of rank 0
  for (std::size_t rank = 0; rank < 2; ++rank) {
    report.ranks[rank].planned_sent_bytes = 5000 + static_cast<std::int64_t>(rank);
    report.ranks[rank].state_formula_bytes = 8000 + 10 * static_cast<double>(rank);
    report.ranks[rank].sent_formula_bytes = 6000 + 10 * static_cast<double>(rank);
  }
  const auto written = json::parse(to_json(report));
  EXPECT_EQ(written["planned_sent_bytes_of_ranks"], (json{5000, 5001}));
  EXPECT_EQ(written["state_formula_bytes_of_ranks"], (json{8000.0, 8010.0}));
  EXPECT_EQ(written["sent_formula_bytes_of_ranks"], (json{6000.0, 6010.0}));
}

TEST(Report, SmallLossesKeepDigits) {
  auto report = some_report();
  report.steps.losses.back() = 0.0000317F;
  report.validation.loss = 0;
  EXPECT_NE(summary(report).find("  loss 3.17e-05  val_loss 0.0000"), std::string::npos) << summary(report);
}

TEST(Report, SummaryIsShort) {
  auto report = some_report();
  const auto text = one_line(summary(report));
  EXPECT_NE(text.find("loss 3.5000 val_loss 3.2500 300 ms a step 2,000 tokens/s utilization 50%: the model's"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("sends 5.86 KiB a step (formula 5.86 KiB)"), std::string::npos) << text;
  EXPECT_EQ(text.find("skipped"), std::string::npos);
  report.engine.skipped_steps = 2;
  EXPECT_NE(one_line(summary(report)).find("2 steps were skipped"), std::string::npos);
  report.engine.skipped_steps = 1;
  EXPECT_NE(one_line(summary(report)).find("1 step was skipped"), std::string::npos);
}

TEST(Report, SummaryTimesUseFittingUnit) {
  RunReport r = some_report();
  r.steps.seconds = {2340};
  r.ranks[0].memory.disk[MemoryTag::kMoment] = 4000;
  r.ranks[0].transfers.requests.disk = {.busy_seconds = 90};
  EXPECT_NE(one_line(summary(r)).find("val_loss 3.2500 39.0 min a step"), std::string::npos) << summary(r);
  EXPECT_NE(one_line(summary(r)).find("1.50 min, 100% of it hidden"), std::string::npos) << summary(r);
}

TEST(Report, SummaryFitsTerminal) {
  RunReport r = some_report();
  for (RankReport& rank : r.ranks) {
    rank.memory.disk[MemoryTag::kMoment] = rank.memory.host[MemoryTag::kGradient] = std::int64_t{1023} << 30;
    rank.transfers = {.requests = {.disk = {.read_bytes = 1023, .written_bytes = 1023, .busy_seconds = 5940}},
                      .link = {.up_bytes = 1023, .down_bytes = 1023, .busy_seconds = 5940}};
    rank.sent_bytes_per_step = 1;
  }
  r.machine.activations_on = "disk";
  r.predicted.emplace();
  r.predicted->busy[0][0] = 5940;
  r.engine.delayed_steps = r.engine.skipped_steps = r.steps.rewinds = 1'000'000;
  std::istringstream lines(summary(r));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kColumns) << line;
}

}  // namespace
}  // namespace zero
