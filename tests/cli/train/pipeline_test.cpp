// `[parallel]`: processes share one model as a pipeline, over shared memory, gloo and MPI. Also plans and refused keys.
#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/text/bytes.h"

#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"
#include "tests/support/mpirun.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class Pipelines : public TrainingTest {
 protected:
  Pipelines() : TrainingTest(small_gpt(at_one_rate("steps = 4\nbatch = 2\naccumulate = 4\n"))) {}
};
using PipelinesSlow = Pipelines;

TEST_F(PipelinesSlow, ProcessesKeepBits) {
  for (const std::string flags : {"", " --model.dropout 0.2 --train.checkpoint_activations true"}) {
    SCOPED_TRACE(flags);
    const Json plain = report_of("-n 1 --run.threads 1" + flags, "plain" + std::to_string(flags.size()));
    const Json cut =
        report_of("-n 2 --run.threads 1 --parallel.pipeline 2" + flags, "cut" + std::to_string(flags.size()));
    ASSERT_TRUE(plain.is_object() && cut.is_object());
    EXPECT_EQ(cut.at("transport"), "shared_memory");
    for (const char* const key : {"loss_bits", "parameters_sha256", "grad_norms", "val_loss", "num_parameters"})
      EXPECT_EQ(cut.at(key), plain.at(key)) << key;
  }
}

TEST_F(PipelinesSlow, GlooKeepsBits) {
  if (!ZERO_HAS_GLOO) GTEST_SKIP() << "the plug-in gloo is not built";
  const std::string common = " --run.threads 1 --zero.stage 2 --train.checkpoint_activations true";
  const Json plain = report_of("-n 2" + common, "plain");
  for (const std::string schedule : {"1f1b", "zb-h1"}) {
    const Json cut = report_of(
        "-n 4 --comm.transport gloo --parallel.pipeline 2 --parallel.schedule " + schedule + common, schedule);
    ASSERT_TRUE(plain.is_object() && cut.is_object());
    EXPECT_EQ(cut.at("transport"), "gloo");
    for (const char* const key : {"loss_bits", "parameters_sha256", "grad_norms", "val_loss"})
      EXPECT_EQ(cut.at(key), plain.at(key)) << key;
  }
}

// Evaluations with the average, and the files of weights that a run writes at its end.
TEST_F(PipelinesSlow, AveragesKeepBits) {
  const std::string common = " --run.threads 1 --zero.stage 3 --train.ema 0.9 --train.eval_every 2";
  const auto evaluations = [&](const std::string& run) {
    std::vector<double> losses;
    for (const Json& line : json_lines(folder_.read(run + "/metrics.jsonl")))
      for (const char* const key : {"val_loss", "val_loss_ema"})
        if (line.contains(key)) losses.push_back(line.at(key).get<double>());
    return losses;
  };
  ASSERT_TRUE(report_of("-n 2" + common, "plain").is_object());
  const std::vector<double> plain = evaluations("plain");
  EXPECT_EQ(plain.size(), 4U) << "after steps 2 and 4, each with the weights and their average";
  EXPECT_NE(folder_.read("plain/model_ema.safetensors"), folder_.read("plain/model.safetensors"));
  for (const auto& [name, flags] : {std::pair<std::string, std::string>{"cut", "-n 4 --parallel.pipeline 2"},
                                    {"zbv", "-n 4 --parallel.pipeline 2 --parallel.schedule zb-v"}}) {
    ASSERT_TRUE(report_of(flags + common, name).is_object());
    EXPECT_EQ(evaluations(name), plain);
    for (const char* const file : {"/model.safetensors", "/model_ema.safetensors"}) {
      EXPECT_FALSE(folder_.read(name + file).empty());
      EXPECT_TRUE(folder_.read(name + file) == folder_.read(std::string("plain") + file)) << name << file;
    }
  }
}

// Files and text that other commands make of a run.
TEST_F(PipelinesSlow, ExportAndTextEqualWholeModels) {
  const auto made_of = [&](const std::string& run, const std::string& flags) {
    EXPECT_TRUE(report_of("--run.threads 1 --checkpoint.every 2 " + flags, run).is_object());
    const std::string file = run + ".safetensors";
    const Ran exported = folder_.zero("export " + run + " -o " + file, "timeout 60");
    EXPECT_EQ(exported.status, 0) << exported.errors;
    const Ran text = folder_.zero("generate " + run + " --prompt all --tokens 30", "timeout 60");
    EXPECT_EQ(text.status, 0) << text.errors;
    const Ran of_checkpoint =
        folder_.zero("generate " + run + "/checkpoints/step-00000002 --prompt all --tokens 30", "timeout 60");
    EXPECT_EQ(of_checkpoint.status, 0) << of_checkpoint.errors;
    return std::vector{folder_.read(file), text.output, of_checkpoint.output};
  };
  const std::vector<std::string> plain = made_of("plain", "-n 1");
  for (const std::string& each : plain) EXPECT_GT(each.size(), 30U);
  EXPECT_TRUE(made_of("cut", "-n 2 --parallel.pipeline 2 --zero.stage 1") == plain);
  EXPECT_TRUE(made_of("three", "-n 3 --parallel.pipeline 3 --zero.stage 3") == plain);
}

// A sample begins with one token, and is longer than the context and than the number of plans that are kept.
TEST_F(PipelinesSlow, SamplesAreThoseOfWholeModel) {
  const auto sample = [&](const std::string& flags) {
    const Ran ran = folder_.zero("train c.toml --run.threads 1 --train.sample 50 --run.dir " + flags, "timeout 250");
    EXPECT_EQ(ran.status, 0) << ran.errors;
    const std::size_t begin = ran.output.find("sample:"), end = ran.output.find("done: ");
    return begin < end ? ran.output.substr(begin, end - begin) : "no sample\n" + ran.output;
  };
  const std::string plain = sample("plain -n 1");
  EXPECT_GT(plain.size(), 50U);
  EXPECT_EQ(sample("cut -n 2 --parallel.pipeline 2"), plain);
  EXPECT_EQ(sample("three -n 3 --parallel.pipeline 3 --zero.stage 3"), plain);
}

// Rank 0 measures operators, neighbours measure their link over MPI, and all take one order.
TEST_F(PipelinesSlow, AutoKeepsBitsOverMpi) {
  if (std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "this build has no mpirun";
  const Json plain = report_of("-n 1 --run.threads 1", "plain");
  const Ran ran = folder_.zero(
      "train c.toml --run.dir cut --run.threads 1 --comm.transport mpi --parallel.pipeline 2 --parallel.schedule auto",
      "timeout 250 " + mpirun_ranks(2));
  ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
  const Json cut = Json::parse(folder_.read("cut/report.json"));
  EXPECT_EQ(cut.at("transport"), "mpi");
  for (const char* const key : {"loss_bits", "parameters_sha256"}) EXPECT_EQ(cut.at(key), plain.at(key)) << key;
}

// The ledger of each rank: two lines of two positions, over which each stage divides the states of a section.
TEST_F(PipelinesSlow, RanksHoldPlannedBytes) {
  int number = 0;
  for (const std::string ways : {"0", "1", "2", "3", "3 --zero.device_memory min", "3 --parallel.schedule zb-v"}) {
    SCOPED_TRACE(ways);
    const std::string flags = "-n 4 --parallel.pipeline 2 --zero.stage " + ways;
    const Ran json = folder_.zero("plan c.toml " + flags + " --json", "timeout 60");
    const Json plan = Json::parse(json.output, nullptr, /*allow_exceptions=*/false);
    const Json report = report_of(flags, fmt::format("run{}", ++number));
    ASSERT_TRUE(plan.is_object() && report.is_object()) << json.errors;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const Json& memory = report.at("memory_bytes").at(rank);
      double states = 0;
      for (const char* const state : {"parameter", "gradient", "master", "moment"})
        states += memory.at(state).get<double>();
      const Json& peak = report.at("peak_memory_bytes").at(rank);
      const auto planned = [&, position = plan.at("positions").at(rank / 2)](const std::string& part) {
        return position.at(part + "_bytes").get<double>();
      };
      EXPECT_NEAR(states / planned("state"), 1, 0.02) << "rank " << rank;
      EXPECT_NEAR(peak.at("gathered").get<double>(), planned("gathered"), 0.02 * planned("gathered"))
          << "rank " << rank;
      EXPECT_EQ(planned("gathered") > 0, ways.starts_with("3"));
      // A limit: two of the largest gradients. A section may have fewer.
      EXPECT_LE(peak.at("staging").get<double>(), 1.02 * planned("staging")) << "rank " << rank;
      EXPECT_GE(peak.at("staging").get<double>(), 0.5 * planned("staging")) << "rank " << rank;
      const double of_ledger = planned("total") - planned("most_activation");
      EXPECT_EQ(of_ledger, planned("state") + planned("gathered") + planned("staging"));
      EXPECT_LE(peak.at("total").get<double>(), 1.02 * of_ledger) << "rank " << rank;
      EXPECT_GE(peak.at("total").get<double>(), 0.7 * of_ledger) << "rank " << rank;
    }
  }
}

TEST_F(PipelinesSlow, CutsKeepBits) {
  const Json plain = report_of("-n 1", "plain");
  for (const auto& [name, cut] : {std::pair("measured", "measured"), std::pair("named", "'[\"ln_f\"]'")}) {
    const Json run = report_of(std::string("-n 2 --parallel.pipeline 2 --parallel.cut ") + cut, name);
    ASSERT_TRUE(plain.is_object() && run.is_object()) << cut;
    EXPECT_EQ(run.at("parameters_sha256"), plain.at("parameters_sha256")) << cut;
  }
}

// The sums of a run's checkpoints do not depend on its sections.
TEST_F(PipelinesSlow, OtherCutsVerifyTheRun) {
  const std::string flags = "-n 2 --parallel.pipeline 2 --parallel.schedule zb-h1 --checkpoint.every 2 --run.threads 1";
  ASSERT_TRUE(report_of(flags, "run").is_object());
  for (const char* const cut : {"", "--parallel.pipeline 1"}) {
    const Ran ran = folder_.zero(std::string("verify run ") + cut, "timeout 100");
    EXPECT_EQ(ran.status, 0) << cut << ran.output << ran.errors;
    EXPECT_TRUE(says(ran.output, "equal: no difference")) << ran.output;
  }
}

TEST_F(Pipelines, PlanHasSectionsAndOrder) {
  const Ran ran = folder_.zero("plan c.toml -n 2 --parallel.pipeline 2", "timeout 60");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "section 1 at position 0")) << ran.output;
  EXPECT_TRUE(says(ran.output, "position 0: F0.1 F1.1 B0.1 F2.1 B1.1 F3.1 B2.1 B3.1")) << ran.output;
  const Ran json = folder_.zero("plan c.toml -n 2 --parallel.pipeline 2 --json", "timeout 60");
  const Json plan = Json::parse(json.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(plan.is_object()) << json.errors;
  EXPECT_EQ(plan.at("positions").size(), 2U);
  EXPECT_GT(plan.at("crossings").at(0).at("bytes"), 0);
}

// A plan of two positions, as text and as JSON.
struct PrintedPlan {
  std::string text;
  Json json;
};
PrintedPlan printed_plan(const Folder& folder, const std::string& flags) {
  const std::string plan = "plan c.toml -n 2 --parallel.pipeline 2 " + flags;
  const Ran text = folder.zero(plan, "timeout 60"), json = folder.zero(plan + " --json", "timeout 60");
  EXPECT_EQ(text.status, 0) << flags << text.errors;
  EXPECT_EQ(json.status, 0) << flags << json.errors;
  return {text.output, Json::parse(json.output, nullptr, /*allow_exceptions=*/false)};
}

// The shorter of two sections has the share m of the model's work, in each kind of pass. The formula of gpipe and 1f1b
// is one micro-batch of this section. So m follows from the printed bubble, and is the same for each number K of
// micro-batches. zb-h1 hides the products of weights, and no other gradients of weights.
TEST_F(Pipelines, PlannedBubbleFollowsTheFormula) {
  const auto bubble = [this](const std::string& order, int micros) {
    const auto [text, json] = printed_plan(
        folder_, fmt::format("--model.layers 8 --parallel.schedule {} --train.accumulate {}", order, micros));
    const double share = json.at("bubble").get<double>();
    EXPECT_TRUE(says(text, fmt::format("order {}, {} micro-batches of 2 samples; bubble {:.1f} % of a step, by the "
                                       "operators' work\n",
                                       order, micros, 100 * share)))
        << text;
    return share;
  };
  const auto shorter = [](double share, int micros) { return share * micros / (1 + share * (micros - 1)); };
  const double m = shorter(bubble("gpipe", 4), 4), of_1f1b = bubble("1f1b", 4);
  EXPECT_GT(m, 0.45) << "the cut balances the work";
  EXPECT_LE(m, 0.5);
  EXPECT_NEAR(shorter(of_1f1b, 4), m, 1e-9);
  EXPECT_NEAR(shorter(bubble("gpipe", 8), 8), m, 1e-9);
  EXPECT_NEAR(shorter(bubble("1f1b", 8), 8), m, 1e-9);
  const double of_zb_h1 = bubble("zb-h1", 4);
  EXPECT_LT(of_zb_h1, of_1f1b);
  EXPECT_GT(of_zb_h1, m / (3 * 4 * (1 - m) + m));
}

// Before block h.1 only the result of h.0 and the lookups of the tied embedding cross. Each has a number for each token
// and feature. Each position sends one of them forward, and the gradient of the other back.
TEST_F(Pipelines, PlannedCrossingsFollowTheFormula) {
  for (const auto& [dtype, width] : {std::pair("fp32", 4), std::pair("bf16", 2)}) {
    SCOPED_TRACE(dtype);
    constexpr std::int64_t kBatch = 2, kContext = 16, kWidth = 16, kMicros = 4;
    const std::int64_t bytes = kBatch * kContext * kWidth * width;
    const auto [text, json] =
        printed_plan(folder_, std::string("--model.layers 2 --parallel.cut '[\"h.1\"]' --train.dtype ") + dtype);
    ASSERT_EQ(json.at("crossings").size(), 2U) << text;
    for (std::size_t section = 0; section < 2; ++section) {
      const Json& crossing = json.at("crossings").at(section);
      EXPECT_EQ(crossing.at("from"), section);
      EXPECT_EQ(crossing.at("to"), Json::array({section + 1}));
      EXPECT_EQ(crossing.at("bytes"), bytes);
      EXPECT_TRUE(says(text, fmt::format("from section {} to {}: result of {}, {} a micro-batch\n", section,
                                         section + 1, crossing.at("operator").get<std::string>(), format_bytes(bytes))))
          << text;
      EXPECT_EQ(json.at("positions").at(section).at("sent_crossing_bytes"), 2 * bytes * kMicros);
    }
  }
}

// Each number of the table is that of the JSON.
TEST_F(Pipelines, PlanTextEqualsJson) {
  const auto [text, json] = printed_plan(folder_, "--zero.stage 2 --parallel.schedule zb-v --model.layers 2");
  ASSERT_EQ(json.at("positions").size(), 2U) << text;
  for (std::size_t position = 0; position < 2; ++position) {
    const Json& rank = json.at("positions").at(position);
    const auto bytes = [&rank](const char* key) { return format_bytes(rank.at(key).get<std::int64_t>()); };
    EXPECT_TRUE(
        says(text, fmt::format("{:>8} {:>9} {:>11} {:>10} {:>10} {:>10} {:>12} {:>10} {:>12} {:>11}\n", position,
                               fmt::format("{}", fmt::join(rank.at("sections").get<std::vector<int>>(), ", ")),
                               format_count(rank.at("parameters").get<std::int64_t>()), bytes("state_bytes"),
                               bytes("gathered_bytes"), bytes("staging_bytes"), bytes("most_activation_bytes"),
                               bytes("total_bytes"), bytes("sent_crossing_bytes"), bytes("sent_state_bytes"))))
        << text;
    EXPECT_TRUE(says(text, fmt::format("position {}: {}\n", position, rank.at("passes").get<std::string>()))) << text;
  }
}

// Where all units fit, a step gathers each once; under the min budget it gathers twice for each of 4 micro-batches.
TEST_F(PipelinesSlow, PlannedGathersFollowTheBudget) {
  const auto sent = [this](const std::string& flags) {
    const Ran ran = folder_.zero("plan c.toml -n 4 --parallel.pipeline 2 --json " + flags, "timeout 60");
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return Json::parse(ran.output, nullptr, false).at("positions").at(0).at("sent_state_bytes").get<std::int64_t>();
  };
  const std::int64_t whole = sent("--zero.stage 3");
  EXPECT_GT(whole, 0);
  EXPECT_EQ(whole, sent("--zero.stage 2"));
  EXPECT_EQ(sent("--zero.stage 3 --zero.device_memory min") * 5, whole * 12);
}

// A rank with two sections names the part of the budget that one of them has.
TEST_F(PipelinesSlow, PlanRefusesBudgetsOfTheRun) {
  for (const std::string verb : {"plan c.toml", "train c.toml --dry-run", "train c.toml"}) {
    const Ran ran = folder_.zero(verb + " -n 2 --parallel.pipeline 2 --zero.device_memory 1KiB", "timeout 60");
    EXPECT_EQ(ran.status, 2) << verb << ran.output << ran.errors;
    EXPECT_TRUE(says(ran.errors, "zero.device_memory = ")) << verb << ran.errors;
    EXPECT_TRUE(says(ran.errors, "B: too small by ")) << verb << ran.errors;
  }
}

TEST_F(PipelinesSlow, PlanCountsEachTier) {
  std::filesystem::create_directory(folder_.path() / "disk");
  const std::string flags =
      "plan c.toml -n 2 --parallel.pipeline 2 --zero.stage 2 --zero.disk disk --zero.optimizer '{disk = 1}' ";
  const Json plan = Json::parse(folder_.zero(flags + "--json", "timeout 60").output, nullptr, false);
  ASSERT_TRUE(plan.is_object());
  for (const Json& position : plan.at("positions")) {
    const auto bytes = [&position](const char* key) { return position.at(key).get<std::int64_t>(); };
    EXPECT_GT(bytes("disk_state_bytes"), 0);
    EXPECT_GT(bytes("transfer_bytes"), 0);
    EXPECT_EQ(bytes("total_bytes"), bytes("state_bytes") - bytes("disk_state_bytes") + bytes("transfer_bytes") +
                                        bytes("gathered_bytes") + bytes("staging_bytes") +
                                        bytes("most_activation_bytes"));
  }
  EXPECT_TRUE(plan.at("memory").at("fits").get<bool>());
  const Ran text = folder_.zero(flags, "timeout 60");
  EXPECT_TRUE(says(text.output, " more are on disk, and the total includes ")) << text.output;
  EXPECT_TRUE(says(text.output, "memory: a machine with 2 ranks needs at most ")) << text.output;
}

TEST_F(PipelinesSlow, DryRunDescribesTheRun) {
  const std::string train = "train c.toml -n 2 --parallel.pipeline 2 --run.dir there --checkpoint.every 2 ";
  ASSERT_EQ(folder_.zero(train + "--train.steps 2", "timeout 60").status, 0);
  const Ran ran = folder_.zero(train + "--dry-run", "timeout 60");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "\nrun: continues after step 2 of 4\ntime: not known in all: ")) << ran.output;
  const Json json = Json::parse(folder_.zero(train + "--dry-run --json", "timeout 60").output, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json.at("run").at("step"), 2);
  const Ran epochs = folder_.zero("plan c.toml -n 2 --parallel.pipeline 2 --train.epochs 2", "timeout 60");
  EXPECT_TRUE(says(epochs.output, " make 2 epochs of the training data")) << epochs.output << epochs.errors;
}

// The run measures anew, so its choice may be another one than the plan's.
TEST_F(Pipelines, AutoPrintsEachOrder) {
  const std::string flags = "c.toml -n 2 --parallel.pipeline 2 --parallel.schedule auto --parallel.sections 2";
  const Ran plan = folder_.zero("plan " + flags, "timeout 60");
  EXPECT_EQ(plan.status, 0) << plan.errors;
  const Ran run = folder_.zero("train " + flags + " --run.dir run", "timeout 60");
  EXPECT_EQ(run.status, 0) << run.errors;
  for (const std::string& text : {plan.output, run.output}) {
    EXPECT_TRUE(says(text, "interleaved         2 skipped: parallel.sections = 2: ")) << text;
    EXPECT_TRUE(says(text, "  chosen\n")) << text;
  }
  const Json json = Json::parse(folder_.zero("plan " + flags + " --json", "timeout 60").output, nullptr, false);
  ASSERT_TRUE(json.is_object());
  ASSERT_GE(json.at("orders").size(), 6U) << "and deeper 1f1b";
  EXPECT_GT(json.at("orders").at(0).at("seconds"), 0);
}

// A kilobyte a second: a step takes the time of its messages.
TEST_F(Pipelines, PlanCountsTheClustersLinks) {
  folder_.write("cluster.toml", "[cluster]\nhosts = 2\nranks = 1\nnetwork = \"1KB\"\n");
  const std::string flags = "--parallel.pipeline 2 --parallel.schedule auto";
  const Ran ran = folder_.zero("plan c.toml --cluster cluster.toml " + flags, "timeout 60");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "by the operators' seconds on this machine and the cluster's links")) << ran.output;
  const Ran json = folder_.zero("plan c.toml --cluster cluster.toml --json " + flags, "timeout 60");
  const Json plan = Json::parse(json.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(plan.is_object()) << json.errors;
  const double bytes = plan.at("positions").at(0).at("sent_crossing_bytes").get<double>();
  for (const Json& order : plan.at("orders"))
    if (!order.contains("skipped") && order.at("sections") == 2) {
      EXPECT_GT(order.at("seconds"), bytes / 1000 / 2);
    }
}

// Fewer micro-batches than positions, and a time limit below that of a forward pass.
TEST_F(Pipelines, PlanHasNotes) {
  const std::string flags = "plan c.toml -n 3 --parallel.pipeline 3 --train.accumulate 2 --parallel.cut measured ";
  const Ran ran =
      folder_.zero(flags + "--comm.timeout 1ms --model.layers 4 --model.width 128 --train.batch 16", "timeout 60");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "note: with fewer micro-batches (2) than positions (3) the bubble is ")) << ran.output;
  EXPECT_TRUE(says(ran.output, "note: comm.timeout = 1.0 ms is less than four times the ")) << ran.output;
  const Ran json = folder_.zero(flags + "--json --train.accumulate 3", "timeout 60");
  EXPECT_EQ(Json::parse(json.output, nullptr, false).at("notes"), Json::array()) << json.output;
}

// The run and its plan refuse the same.
TEST_F(Pipelines, WrongNumbersEndWithStatusTwo) {
  for (const auto& [flags, start] :
       {std::pair("-n 3 --parallel.pipeline 2", "parallel.pipeline = 2: it must divide the number of ranks"),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.sections 3", "parallel.sections = 3: "),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.schedule interleaved --parallel.sections 40",
                  "parallel.sections = 40: the model can be cut into at most "),
        std::pair("-n 3 --parallel.pipeline 3 --parallel.schedule interleaved",
                  "train.accumulate = 4: parallel.schedule = interleaved needs a multiple of parallel.pipeline = 3"),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.schedule breadth",
                  "parallel.schedule = breadth: not an allowed value"),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.schedule auto --parallel.activation_memory 100B",
                  "parallel.activation_memory = 100 B: "),
        std::pair("-n 2 --parallel.pipeline 2 --parallel.cut '[\"h.9\"]'",
                  "parallel.cut = h.9: the model has no such unit"),
        std::pair("-n 3 --parallel.pipeline 3 --parallel.cut '[\"h.1\", \"h.0\"]' --model.layers 2",
                  "parallel.cut = h.0: the forward pass uses it before the unit that is named before it"),
        std::pair("-n 4 --parallel.pipeline 2 --train.leaves 4",
                  "train.accumulate = 4: 2 ranks compute train.leaves = 4 in 2 micro-batches each"),
        std::pair("-n 6 --parallel.pipeline 2 --train.leaves 7 --train.accumulate 3 --train.reduce each",
                  "train.leaves = 7: after each micro-batch 3 ranks would not sum an aligned part of the tree"),
        std::pair("-n 2 --parallel.pipeline 2 --train.leaves 3 --train.accumulate 3 --train.global_batch 16",
                  "train.leaves = 3: does not divide train.global_batch = 16")}) {
    for (const std::string verb : {"plan", "train"}) {
      const Ran ran = folder_.zero(verb + " c.toml " + flags, "timeout 60");
      EXPECT_EQ(ran.status, 2) << verb << " " << flags << ran.errors;
      EXPECT_TRUE(says(ran.errors, start)) << ran.errors;
    }
  }
}

// Each error names the key, its value, and both remedies.
TEST_F(Pipelines, OptionsOfOtherRunsAreRefused) {
  for (const auto& [flags, start, remedy] :
       {std::tuple("--sync.servers 1", "sync.servers = 1: ", "use 0"),
        std::tuple("--sync.mode local", "sync.mode = \"local\": ", "use sync.mode sync"),
        std::tuple("--zero.delayed_update true", "zero.delayed_update = true: ", "use false"),
        std::tuple("--train.gradient_noise 0.1", "train.gradient_noise = 0.1: ", "use 0"),
        std::tuple("--train.share auto", "train.share = \"auto\": ", "use equal"),
        std::tuple("--checkpoint.memory_every 1", "checkpoint.memory_every = 1: ", "use 0, and checkpoint.every"),
        std::tuple("--comm.gather_wire int8", "comm.gather_wire = \"int8\": ", "use none"),
        std::tuple("--comm.reduce_wire int8", "comm.reduce_wire = \"int8\": ", "use none"),
        std::tuple("--zero.group 2 --comm.outer_wire int8", "comm.outer_wire = \"int8\": ", "use none")}) {
    const Ran ran = folder_.zero(std::string("train c.toml -n 8 --parallel.pipeline 2 ") + flags, "timeout 60");
    EXPECT_EQ(ran.status, 2) << flags << ran.errors;
    EXPECT_TRUE(says(ran.errors, start) && says(ran.errors, "(parallel.pipeline = 2)")) << ran.errors;
    EXPECT_TRUE(says(ran.errors, std::string(remedy) + ", or set parallel.pipeline = 1")) << ran.errors;
  }
}

TEST_F(Pipelines, GroupsWithoutParametersAreRefused) {
  for (const auto& [group, reason] : {std::pair(R"([{parameters="typo*", lr_scale=0.5}])",
                                                "optimizer.group = typo*: no parameter of the model has such a name"),
                                      std::pair(R"([{parameters="*bias", rule="muon"}])",
                                                "optimizer.group = *bias: rule = \"muon\" needs matrices")}) {
    for (const std::string verb : {"plan", "train"}) {
      const Ran ran = folder_.zero(
          verb + " c.toml -n 2 --parallel.pipeline 2 --optimizer.name muon --optimizer.group '" + group + "'",
          "timeout 60");
      EXPECT_EQ(ran.status, 2) << verb << ran.errors;
      EXPECT_TRUE(says(ran.errors, reason)) << ran.errors;
    }
  }
}

// Modules of a plan have no values, and other types than parameters will have.
TEST_F(PipelinesSlow, EachModelAndTypeIsPlanned) {
  namespace fs = std::filesystem;
  fs::create_directory_symlink(std::string(built::kSourceFolder) + "/examples", folder_.path() / "examples");
  for (const std::string flags :
       {"shakespeare_lstm/shakespeare_lstm.toml", "mnist_mlp/mnist_mlp.toml --train.dtype bf16",
        "mnist_cnn/mnist_cnn.toml --train.dtype bf16"}) {
    const Ran ran = folder_.zero("plan --json -n 2 --parallel.pipeline 2 examples/" + flags, "timeout 60");
    EXPECT_EQ(ran.status, 0) << flags << ran.errors;
    const Json plan = Json::parse(ran.output, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(plan.is_object()) << flags;
    EXPECT_EQ(plan.at("positions").size(), 2U) << flags;
  }
}

}  // namespace
}  // namespace zero
