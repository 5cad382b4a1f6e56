// `zero plan`: the tiers of states off the device, and the length of a step.
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/one_line.h"
#include "tests/support/tier.h"

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
steps = 5
batch = 1
[schedule]
warmup = 0
)";

class Plan : public TrainingTest {
 protected:
  Plan() : TrainingTest(kConfig) {}
  void SetUp() override {
    TrainingTest::SetUp();
    std::filesystem::create_directory(folder_.path() / "disk");
  }
  nlohmann::json plan(const std::string& flags) const {
    const Ran ran = folder_.zero("plan c.toml -n 2 --json " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return nlohmann::json::parse(ran.output, nullptr, false);
  }
};
using PlanSlow = Plan;

TEST_F(PlanSlow, DryRunPrintsButWritesNothing) {
  const Ran dry = folder_.zero("train c.toml -n 2 --dry-run --run.dir there");
  ASSERT_EQ(dry.status, 0) << dry.errors;
  EXPECT_TRUE(dry.output.starts_with("dry run: 5 steps on 2 ranks, 2 samples a step, into there\n")) << dry.output;
  const Ran planned = folder_.zero("plan c.toml -n 2 --run.dir there");
  EXPECT_EQ(dry.output.substr(dry.output.find('\n') + 1, 60), planned.output.substr(0, 60));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "there"));
  EXPECT_NE(dry.output.find("\ntime: about "), std::string::npos) << dry.output;
  EXPECT_NE(dry.output.find(": 5 steps of "), std::string::npos) << dry.output;
  const Ran served = folder_.zero("train c.toml -n 2 --dry-run --sync.mode stale");
  ASSERT_EQ(served.status, 0) << served.errors;
  EXPECT_NE(served.output.find("\ntime: not known in all: how long workers wait"), std::string::npos) << served.output;
  const Ran without_data = folder_.zero("train c.toml --dry-run --data.path nowhere.txt");
  EXPECT_EQ(without_data.status, 2) << "a plan needs no data, but a run does";
  EXPECT_EQ(folder_.zero("train c.toml --dry-run --run.dir /proc/run").status, 2) << "and a writable folder";
}

TEST_F(PlanSlow, DryRunDescribesTheRunsFolder) {
  const std::string train = "train c.toml --run.dir there --checkpoint.every 3 ";
  const auto dry_run = [&](const std::string& flags) { return folder_.zero(train + flags + " --dry-run"); };
  EXPECT_EQ(dry_run("").output.find("\nrun: "), std::string::npos) << "it begins";
  ASSERT_EQ(folder_.zero(train + "--train.steps 3").status, 0);
  const Ran goes_on = dry_run("");
  EXPECT_NE(goes_on.output.find("\nrun: continues after step 3 of 5\ntime: about "), std::string::npos)
      << goes_on.output;
  EXPECT_NE(goes_on.output.find(": 2 steps of "), std::string::npos) << goes_on.output;
  EXPECT_EQ(nlohmann::json::parse(dry_run("--json").output)["run"]["step"], 3);
  const Ran again = dry_run("--overwrite");
  EXPECT_NE(again.output.find(": 5 steps of "), std::string::npos) << again.output;
  const Ran beyond = dry_run("--train.steps 2");
  EXPECT_EQ(beyond.status, folder_.zero(train + "--train.steps 2").status) << beyond.errors;
  const Ran states = dry_run("--optimizer.name sgd");
  EXPECT_EQ(states.status, 2);
  EXPECT_NE(states.errors.find("its optimizer keeps [parameter, exp_avg, exp_avg_sq], and this optimizer keeps ["),
            std::string::npos)
      << states.errors;
  EXPECT_EQ(states.errors, folder_.zero(train + "--optimizer.name sgd").errors);
  const Ran replayed = dry_run("--replay there");
  EXPECT_EQ(replayed.status, 2);
  const Ran other = dry_run("--model.width 16");
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.errors.find("holds a run of another model"), std::string::npos) << other.errors;
  ASSERT_EQ(folder_.zero(train).status, 0);
  const Ran done = dry_run("");
  EXPECT_NE(done.output.find("run: there: done already, all 5 steps"), std::string::npos) << done.output;
  EXPECT_EQ(done.output.find("\ntime: "), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(dry_run("--json").output)["run"]["done"], true);
  const std::string unsaved = "train c.toml --run.dir elsewhere --checkpoint.every 0";
  ASSERT_EQ(folder_.zero(unsaved).status, 0);
  const Ran taken = folder_.zero(unsaved + " --dry-run");
  EXPECT_EQ(taken.status, 2);
  EXPECT_NE(taken.errors.find("holds a run already"), std::string::npos) << taken.errors;
}

TEST_F(PlanSlow, DryRunHasDataNotes) {
  std::string rows = "sentence\tlabel\n";
  for (int i = 0; i < 40; ++i) rows += std::string(i % 2 == 0 ? "good\t0\n" : "bad\t2\n");
  folder_.write("rows.tsv", rows);
  folder_.write("t.toml",
                "[model]\nname = \"bert\"\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\n[data]\npath = "
                "\"rows.tsv\"\nkind = \"tsv\"\n[train]\nsteps = 2\n");
  const std::string note = "1 of the 3 classes has no training sample";
  const Ran dry = folder_.zero("train t.toml --dry-run"), json = folder_.zero("train t.toml --dry-run --json");
  EXPECT_NE(one_line(dry.output).find("note: " + note), std::string::npos) << dry.output << dry.errors;
  const std::string first = nlohmann::json::parse(json.output)["run"]["notes"][0];
  EXPECT_NE(first.find(note), std::string::npos) << json.output;
  EXPECT_NE(one_line(folder_.zero("train t.toml").output).find(note), std::string::npos);
}

// The run has no launcher.
TEST_F(PlanSlow, NamesKeysWithoutEffect) {
  const auto errors = [&](const std::string& flags) {
    return folder_.zero("train c.toml --dry-run " + flags, "ZERO_LOG_LEVEL=warn").errors;
  };
  const std::string restarts = "--run.max_restarts 2";
  EXPECT_NE(errors(restarts).find("run.max_restarts: has no effect"), std::string::npos) << errors(restarts);
  EXPECT_EQ(errors(restarts + " -n 1").find("has no effect"), std::string::npos);
  EXPECT_EQ(errors("").find("has no effect"), std::string::npos);
}

TEST_F(PlanSlow, DryRunTimesTriedPasses) {
  const auto dry_run = [&](const std::string& flags) {
    const Ran ran = folder_.zero("train c.toml -n 2 --dry-run --json --run.dir there " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return nlohmann::json::parse(ran.output, nullptr, false);
  };
  const nlohmann::json plan = dry_run("--data.validation 0.5 --train.eval_every 2 --train.accumulate 3"),
                       run = plan["run"];
  const auto number = [](const nlohmann::json& of, const char* name) { return of[name].get<double>(); };
  EXPECT_EQ(run["steps"], 5);
  EXPECT_EQ(run["evaluations"], 3) << "after steps 2 and 4, and at the end";
  const auto compared = dry_run("--data.validation 0.5 --train.eval_every 2 --train.patience 9");
  EXPECT_EQ(compared["run"]["evaluations"], 4) << "the last step has one more, to be compared";
  const nlohmann::json& micro_batch = run["micro_batch"];
  EXPECT_GE(micro_batch["passes"], 1);
  EXPECT_GT(number(micro_batch, "forward_seconds"), 0);
  EXPECT_GE(number(run, "step_seconds"),
            3 * (number(micro_batch, "forward_seconds") + number(micro_batch, "backward_seconds")));
  EXPECT_GE(number(run, "step_seconds"), plan["predicted"]["seconds"].get<double>());
  EXPECT_GE(number(run, "seconds"), number(run, "least_seconds"));
  EXPECT_DOUBLE_EQ(number(run, "seconds"), 5 * number(run, "step_seconds") + number(run, "evaluation_seconds"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "there"));
  const std::string served = dry_run("--sync.mode stale")["run"]["why_unknown"];
  EXPECT_TRUE(served.starts_with("how long workers wait")) << served;
  EXPECT_EQ(folder_.zero("train c.toml --json").status, 2) << "a run's numbers are in its folder";
}

// The plan's update takes longer with the disk.
TEST_F(PlanSlow, BudgetMovesStatesToDisk) {
  const auto roomy = plan("--zero.disk disk --zero.device_memory 64MiB");
  EXPECT_EQ(roomy["tiers"]["disk"]["total"], 0);
  EXPECT_GT(roomy["memory"]["disk"]["needed_bytes"], 0) << "room for states that may move there";
  const auto tight = plan("--zero.disk disk --zero.device_memory 1200KiB --zero.host_memory min");
  EXPECT_GT(tight["tiers"]["disk"]["total"].get<int>(), 0);
  EXPECT_LE(tight["tiers"]["device"]["total"].get<int>(), 1200 << 10);
  const auto bound = tight["predicted"]["update"]["bound"].get<std::string>();
  EXPECT_TRUE(bound.starts_with("disk")) << bound << ": bound by the sum of both directions";
  const auto seconds = [](const nlohmann::json& plan) { return plan["predicted"]["update"]["seconds"].get<double>(); };
  EXPECT_GT(seconds(tight), seconds(roomy));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "disk"));
}

TEST_F(PlanSlow, EightBitMomentsTakeAQuarter) {
  const auto wide = plan("--optimizer.name adamw")["stages"][0]["memory_bytes"];
  const auto coded = plan("--optimizer.name adamw8bit --zero.optimizer '{host=1}'");
  const auto narrow = coded["stages"][0]["memory_bytes"];
  const double elements = wide["moment"].get<double>() / 8;
  EXPECT_NEAR(narrow["moment"].get<double>(), (2 + 8 / 256.0) * elements, 0.05 * elements) << "padding adds more";
  EXPECT_EQ(narrow["parameter"], narrow["gradient"]);
  const auto on_host = coded["tiers"]["host"]["moment"].get<std::int64_t>();
  const auto on_device = coded["tiers"]["device"]["moment"].get<std::int64_t>();
  EXPECT_EQ(on_host, on_device * 64) << "codes on the host, scales on the device";
}

// Three ranks, or three lines, are no power of two: each sums its leaves before they are reduced.
TEST_F(PlanSlow, LeavesDecideTheReduction) {
  const auto planned = [&](const std::string& flags) {
    const Ran ran = folder_.zero("plan c.toml --json --zero.stage 2 --train.leaves 12 " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return nlohmann::json::parse(ran.output, nullptr, false);
  };
  EXPECT_EQ(planned("-n 3")["stages"], planned("-n 3 --train.reduce last")["stages"]);
  const auto lines = planned("-n 6 --parallel.pipeline 2"),
             last = planned("-n 6 --parallel.pipeline 2 --train.reduce last");
  for (std::size_t position = 0; position < 2; ++position)
    for (const char* bytes : {"state_bytes", "sent_state_bytes"})
      EXPECT_EQ(lines["positions"][position][bytes], last["positions"][position][bytes]) << position << bytes;
  const Ran away = folder_.zero("plan c.toml -n 3 --zero.stage 2 --train.leaves 12 --zero.gradient '{host = 1}'");
  EXPECT_EQ(away.status, 2) << away.output;
  EXPECT_NE(away.errors.find("whole gradients cannot leave the device"), std::string::npos) << away.errors;
}

// Copies would add leaves in another order, and a run with such copies is refused.
TEST_F(PlanSlow, LeavesKeepMachinesTogether) {
  const Ran ran = folder_.zero("plan c.toml --json -n 4 --machines 2 --zero.stage 2 --train.leaves 8");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_EQ(nlohmann::json::parse(ran.output, nullptr, false)["copies"], 1);
}

TEST_F(PlanSlow, TwoPassRulesReadDiskTwice) {
  const std::string flags =
      "plan c.toml -n 2 --zero.stage 3 --zero.parameter '{disk = 1}' --zero.optimizer '{disk = 1}' --zero.disk disk ";
  for (const char* rule : {"lamb", "adafactor"}) {
    const Ran ran = folder_.zero(flags + "--optimizer.name " + rule);
    ASSERT_EQ(ran.status, 0) << ran.errors;
    EXPECT_NE(one_line(ran.output).find(std::string("passes ") + rule + " makes 2 passes"), std::string::npos)
        << ran.output;
    EXPECT_NE(one_line(ran.output).find(" of master copies and moments on disk are read 2 times a step"),
              std::string::npos)
        << ran.output;
    const auto passes = nlohmann::json::parse(folder_.zero(flags + "--json --optimizer.name " + rule).output)["passes"];
    EXPECT_EQ(passes["num_passes"], 2);
    EXPECT_EQ(passes["factors_first"], std::string(rule) == "adafactor");
    EXPECT_GT(passes["states_bytes_of_each"]["disk"], 0);
  }
  EXPECT_EQ(folder_.zero(flags).output.find("passes"), std::string::npos);
}

// The data must be on this machine.
TEST_F(PlanSlow, TurnsEpochsIntoSteps) {
  // 8,024 bytes are 251 windows of 32 tokens. A step of 2 ranks takes 2 windows.
  const std::int64_t windows = (static_cast<std::int64_t>(folder_.read("input.txt").size()) - 1 + 31) / 32;
  const Ran ran = folder_.zero("plan c.toml -n 2 --train.epochs 3");
  const std::string line = "steps: " + std::to_string((3 * windows + 1) / 2) + " make 3 epochs of the training data";
  EXPECT_NE(ran.output.find(line), std::string::npos) << line << "\n" << ran.output << ran.errors;
  EXPECT_EQ(plan("--train.epochs 3")["steps"], (3 * windows + 1) / 2);
  EXPECT_FALSE(plan("--train.epochs 3 --data.path nowhere").contains("steps"));
}

TEST_F(PlanSlow, EveryExampleIsPlanned) {
  namespace fs = std::filesystem;
  fs::create_directory_symlink(std::string(built::kSourceFolder) + "/examples", folder_.path() / "examples");
  int planned = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(built::kSourceFolder) / "examples")) {
    if (entry.path().extension() != ".toml") continue;
    const Ran ran = folder_.zero("plan --json -n 2 '" + entry.path().string() + "'");
    EXPECT_EQ(ran.status, 0) << entry.path() << ran.errors;
    EXPECT_GT(nlohmann::json::parse(ran.output, nullptr, false)["num_parameters"], 0) << entry.path();
    ++planned;
  }
  EXPECT_GE(planned, 7);
}

TEST_F(PlanSlow, ScheduleShowsMovesBetweenTiers) {
  const std::string placed =
      "--schedule --zero.stage 3 --zero.disk disk --zero.parameter '{disk = 1}' --zero.gradient '{host = 1}' "
      "--zero.optimizer '{disk = 1}'";
  const auto schedule = plan(placed)["schedule"];
  EXPECT_EQ(schedule["num_prefetches"], schedule["num_gathers"]);
  EXPECT_EQ(schedule["num_offloads"], schedule["num_reduces"]);
  EXPECT_GT(schedule["host_written_bytes"].get<std::int64_t>(), 0);
  EXPECT_EQ(schedule["host_read_bytes"], schedule["host_written_bytes"]);
  EXPECT_GT(schedule["disk_read_bytes"].get<std::int64_t>(), schedule["disk_written_bytes"].get<std::int64_t>());
  const Ran ran = folder_.zero("plan c.toml -n 2 " + placed);
  for (const char* line : {"prefetch transformer.h.1 from disk", "offload transformer.h.1 to host",
                           "update transformer.h.1 on host (", "of states from disk and writes"})
    EXPECT_NE(ran.output.find(line), std::string::npos) << line << "\n" << ran.output;
}

// The refusal names the cost of each remedy.
TEST_F(PlanSlow, RefusalNamesShortageAndCosts) {
  const Ran ran = folder_.zero(
      "plan c.toml -n 2 --zero.disk disk --zero.disk_memory 16KiB --zero.device_memory 800KiB "
      "--zero.host_memory min");
  EXPECT_EQ(ran.status, 2) << ran.output;
  for (const char* words : {" B too little room", "raise zero.disk_memory by", "or zero.host_memory by",
                            "or zero.device_memory by", "there (transfers and updates of", " ms)"})
    EXPECT_NE(ran.errors.find(words), std::string::npos) << ran.errors;
}

TEST_F(PlanSlow, AProfileTellsTheComputation) {
  const auto report = report_of("-n 2", "run");
  const auto planned = plan("--zero.optimizer '{host = 1}' --profile run");
  EXPECT_DOUBLE_EQ(planned["predicted"]["forward"]["seconds"].get<double>(),
                   report["profile"]["forward_seconds"].get<double>());
  EXPECT_DOUBLE_EQ(planned["predicted"]["backward"]["seconds"].get<double>(),
                   report["profile"]["backward_seconds"].get<double>());
  EXPECT_EQ(planned["predicted"]["computation"], (nlohmann::json{{"from", "run"}}));
  const Ran missing = folder_.zero("plan c.toml --zero.optimizer '{host = 1}' --profile nowhere");
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.errors.find("--profile"), std::string::npos) << missing.errors;
  EXPECT_EQ(report["profile"]["used_at"].size(), report["profile"]["gradient_at"].size());
  const Ran other = folder_.zero("plan c.toml --zero.optimizer '{host = 1}' --model.layers 3 --profile run");
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_NE(other.errors.find("units, and this model has"), std::string::npos) << other.errors;
}

TEST_F(PlanSlow, ScalesAProfileOfOtherBatches) {
  report_of("-n 2", "run");
  const auto once = plan("--profile run")["predicted"], twice = plan("--train.batch 2 --profile run")["predicted"];
  EXPECT_EQ(twice["computation"], (nlohmann::json{{"from", "run"}, {"scale", 2.0}}));
  EXPECT_DOUBLE_EQ(twice["forward"]["busy"]["compute"].get<double>(),
                   2 * once["forward"]["busy"]["compute"].get<double>());
}

TEST_F(PlanSlow, SaysWhatIsBesideTheStates) {
  const std::string budgets = " --zero.disk disk --zero.device_memory 900KiB --zero.host_memory min";
  const auto planned = plan(budgets);
  const auto on = [&](const char* tier) {
    return planned["tiers"][tier]["total"].get<std::int64_t>() +
           planned["beside_states_bytes"][tier].get<std::int64_t>();
  };
  EXPECT_LE(on("device"), 900 << 10);
  const auto report = report_of("-n 2" + budgets, "run");
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_LE(report["peak_memory_bytes"][rank]["total"], 900 << 10);
    EXPECT_LE(report["peak_host_memory_bytes"][rank]["total"], on("host"));
    EXPECT_GT(report["peak_host_memory_bytes"][rank]["total"], 0);
  }
}

TEST_F(PlanSlow, FetchesAPersistentUnitOnce) {
  const std::string on_disk = "--zero.disk disk --zero.parameter '{disk = 1}' ";
  const auto roomy = plan(on_disk), minimum = plan(on_disk + "--zero.device_memory min");
  const auto disk_seconds = [](const nlohmann::json& plan, const char* pass) {
    return plan["predicted"][pass]["busy"]["disk"].get<double>();
  };
  EXPECT_GT(disk_seconds(roomy, "forward"), 0);
  EXPECT_EQ(disk_seconds(roomy, "backward"), 0);
  EXPECT_GT(disk_seconds(minimum, "backward"), 0);
}

// The states take 1.5 TiB. No run here could hold them, but a plan may be for any machine.
TEST_F(PlanSlow, IgnoresThisMachinesFreeMemory) {
  const auto optimizer = [&](const std::string& tier) {
    return plan("--model.width 65536 --zero.disk disk --zero.optimizer '{" + tier + " = 1}'")["tiers"][tier]["total"]
        .get<std::int64_t>();
  };
  for (const char* tier : {"device", "host", "disk"}) EXPECT_GT(optimizer(tier), std::int64_t{300} << 30) << tier;
}

TEST_F(PlanSlow, EstimatesComputationWithoutAProfile) {
  for (const char* where : {"", "--zero.stage 0", "--zero.optimizer '{host = 1}'"}) {
    const auto predicted = plan("--train.batch 64 " + std::string(where))["predicted"];
    const auto seconds = [&](const char* pass) { return predicted[pass]["busy"]["compute"].get<double>(); };
    EXPECT_GT(seconds("forward"), 0) << where;
    EXPECT_DOUBLE_EQ(seconds("backward"), 2 * seconds("forward")) << where;
    EXPECT_GE(predicted["seconds"].get<double>(), seconds("forward") + seconds("backward")) << where;
    EXPECT_EQ(predicted["forward"]["bound"], "compute") << where;
    EXPECT_EQ(predicted["bound"], "compute") << where;
    EXPECT_EQ(predicted["computation"]["from"], "estimate") << where;
  }
  const auto again = plan("--train.checkpoint_activations true")["predicted"];
  EXPECT_DOUBLE_EQ(again["backward"]["busy"]["compute"].get<double>(),
                   3 * again["forward"]["busy"]["compute"].get<double>());
  const auto once = plan("")["predicted"]["computation"],
             twice = plan("--train.accumulate 2")["predicted"]["computation"];
  EXPECT_DOUBLE_EQ(twice["flops_per_step"].get<double>(), 2 * once["flops_per_step"].get<double>());
}

TEST_F(PlanSlow, RowNamesTheComputationsSource) {
  const Ran estimated = folder_.zero("plan c.toml -n 2 --train.batch 64");
  EXPECT_NE(one_line(estimated.output).find("a step, bound by compute"), std::string::npos) << estimated.output;
  EXPECT_NE(one_line(estimated.output).find("computation estimated: "), std::string::npos) << estimated.output;
}

// If a run is refused because of host or disk, its plan is refused with the same words and status.
TEST_F(PlanSlow, RefusesUnsupportedOffload) {
  struct Refused {
    std::string flags;
    std::vector<std::string> says;
  };
  const std::vector<Refused> refused{
      {"--zero.stage 3 --zero.optimizer '{host = 1}' --zero.host_memory 1KiB",
       {"zero.host_memory = 1.00 KiB", "too small by", "a rank needs"}},
      {"--zero.optimizer '{disk = 1}' --zero.disk disk --zero.disk_memory 1KiB",
       {"zero.disk_memory = 1.00 KiB", "too small by", "a rank places"}},
      {"--zero.optimizer '{disk = 1}'", {"zero.disk = []", "no folder is set", "with a folder on each disk"}},
      // The solver has no room for states on the host. The engine has none there for the tiles of states on disk.
      {"--zero.disk disk --zero.device_memory 1200KiB --zero.host_memory 1KiB", {"zero.host_memory", "a rank needs"}}};
  for (const Refused& row : refused) {
    const Ran planned = folder_.zero("plan c.toml -n 2 " + row.flags);
    const Ran trained = folder_.zero("train c.toml --comm.transport in_process -n 2 --run.dir never " + row.flags);
    EXPECT_EQ(planned.status, 2) << row.flags << planned.output;
    EXPECT_EQ(trained.status, 2) << row.flags << trained.output;
    for (const std::string& text : row.says) {
      EXPECT_NE(planned.errors.find(text), std::string::npos) << text << " is not in\n" << planned.errors;
      EXPECT_NE(trained.errors.find(text), std::string::npos) << text << " is not in\n" << trained.errors;
    }
  }
}

TEST_F(PlanSlow, RefusesAMissingFolder) {
  for (const std::string flags : {"--zero.disk /not/here", "--zero.disk c.toml", "--profile /not/here"}) {
    const Ran ran = folder_.zero("plan c.toml -n 2 " + flags);
    EXPECT_EQ(ran.status, 2) << flags << ran.output;
    const char* const said = flags.ends_with("c.toml") ? "is not a folder" : "no such folder";
    EXPECT_NE(ran.errors.find(said), std::string::npos) << ran.errors;
    EXPECT_EQ(ran.output, "");
  }
}

TEST_F(PlanSlow, NamesLowerStageThatFits) {
  const Ran ran = folder_.zero("plan c.toml -n 2");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  for (const char* words : {"memory a rank needs at least ", "activations ", "(estimated)",
                            "2 ranks of this machine need ", "are free here: it fits, and so does stage 0"})
    EXPECT_NE(one_line(ran.output).find(words), std::string::npos) << words << "\n" << ran.output;
  const auto memory = plan("")["memory"];
  EXPECT_EQ(memory["fits"], true);
  EXPECT_EQ(memory["needed_bytes"], 2 * memory["rank"]["total_bytes"].get<std::int64_t>());
  EXPECT_GT(memory["rank"]["activation_bytes"], 2 * 32 * 256 * 4) << "the logits and the loss's tensors";
  EXPECT_EQ(plan("--machines 2")["memory"]["ranks_of_a_machine"], 1);
  const std::string one = one_line(folder_.zero("plan c.toml -n 1").output);
  EXPECT_NE(one.find("1 rank of this machine needs "), std::string::npos) << one;
}

// With activation checkpoints they take less.
TEST_F(PlanSlow, ActivationsGrowWithTheBatch) {
  const auto activations = [this](const std::string& flags) {
    return plan("--model.layers 8 " + flags)["memory"]["rank"]["activation_bytes"].get<double>();
  };
  const double one = activations("");
  EXPECT_NEAR(activations("--train.batch 4") / one, 4, 0.2);
  EXPECT_LT(activations("--train.checkpoint_activations true"), one / 2);
  EXPECT_DOUBLE_EQ(activations("--train.accumulate 4"), one) << "one micro-batch at a time";
}

// The states take 1.5 TiB.
TEST_F(PlanSlow, NamesShortageAndRemedy) {
  const std::string flags = "--zero.stage 1 --model.width 65536";
  const auto memory = plan(flags)["memory"];
  EXPECT_EQ(memory["fits"], false);
  const auto needed = memory["needed_bytes"].get<std::int64_t>(), free = memory["free_bytes"].get<std::int64_t>();
  EXPECT_GE(memory["lacking_bytes"], needed - free);
  for (const auto& way : memory["would_fit"]) EXPECT_LE(way["needed_bytes"], free) << way;
  const Ran ran = folder_.zero("plan c.toml -n 2 " + flags);
  EXPECT_EQ(ran.status, 0) << ran.errors;
  for (const char* words : {"it does not fit, ", " lack"})
    EXPECT_NE(one_line(ran.output).find(words), std::string::npos) << words << "\n" << ran.output;
}

TEST_F(PlanSlow, RanksShareTooFewCores) {
  const auto compute = [this](const std::string& world) {
    const Ran ran = folder_.zero("plan c.toml --json --train.batch 64 -n " + world);
    return nlohmann::json::parse(ran.output, nullptr, false)["predicted"];
  };
  EXPECT_FALSE(compute("1")["computation"].contains("ranks_to_a_core"));
  const auto many = compute("1024");
  const double crowd = many["computation"]["ranks_to_a_core"].get<double>();
  EXPECT_GT(crowd, 1);
  EXPECT_DOUBLE_EQ(many["forward"]["busy"]["compute"].get<double>(),
                   crowd * many["computation"]["flops_per_step"].get<double>() / 3 /
                       many["computation"]["flops_per_second"].get<double>());
}

// The probed rate is that of all cores. The plan must not divide it by the number of threads again, however many a rank
// has.
TEST_F(PlanSlow, CountsEachCoreOnce) {
  for (const char* threads : {"1", "64", "4096"}) {
    const Ran ran = folder_.zero(std::string("plan c.toml --json --run.threads ") + threads, "timeout 60");
    ASSERT_EQ(ran.status, 0) << ran.errors;
    EXPECT_FALSE(nlohmann::json::parse(ran.output)["predicted"]["computation"].contains("ranks_to_a_core")) << threads;
  }
}

TEST_F(PlanSlow, SaysThatCommunicationIsLeftOut) {
  EXPECT_NE(one_line(folder_.zero("plan c.toml -n 2").output)
                .find("communication is left out: add the time in which a rank sends "),
            std::string::npos);
  EXPECT_EQ(plan("")["predicted"]["counts_communication"], false);
  EXPECT_EQ(folder_.zero("plan c.toml -n 1").output.find("communication"), std::string::npos);
}

TEST_F(PlanSlow, RanksAreSpreadEvenlyOverMachines) {
  EXPECT_EQ(folder_.zero("plan c.toml -n 3 --machines 2").status, 2);
  EXPECT_EQ(folder_.zero("plan c.toml -n 2 --machines 0").status, 2);
}

TEST_F(PlanSlow, ClusterPlanNamesTheFastestWay) {
  folder_.write("cluster.toml", "[cluster]\nhosts = 2\nranks = 4\nnetwork = \"10MB\"\nflops = 1e12\n");
  const Ran ran = folder_.zero("plan c.toml --cluster cluster.toml");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.output.find("cluster: 2 machines of 4 ranks"), std::string::npos) << ran.output;
  // The file names no speed within a machine, so transfers there take no time. The largest shards have the most pieces.
  EXPECT_NE(one_line(ran.output).find("best: --zero.stage 0 --zero.group 1."), std::string::npos) << ran.output;
  EXPECT_EQ(folder_.zero("plan c.toml -n 2 --cluster cluster.toml").status, 2) << "the file has the number of ranks";
  EXPECT_EQ(folder_.zero("plan c.toml --cluster nowhere.toml").status, 2);
  const Ran served = folder_.zero("plan c.toml --cluster cluster.toml --sync.mode async");
  EXPECT_EQ(served.status, 0) << served.errors;
  EXPECT_NE(one_line(served.output).find("servers over several machines exchange messages"), std::string::npos)
      << served.output;
}

// The model is too large for any machine, so this machine's memory does not matter.
TEST_F(PlanSlow, ClusterIsJudgedByItsFile) {
  const std::string huge = "plan c.toml --cluster cluster.toml --model.layers 96 --model.width 12288 --model.heads 96 ";
  const auto write = [&](const std::string& memory) {
    folder_.write("cluster.toml", "[cluster]\nhosts = 1\nranks = 1\nflops = 1e12\n" + memory);
  };
  const auto free_bytes = [&] {
    return nlohmann::json::parse(folder_.zero(huge + "--json").output, nullptr, false)["memory"]["free_bytes"];
  };
  write("");
  const Ran unknown = folder_.zero(huge);
  ASSERT_EQ(unknown.status, 0) << unknown.errors;
  for (const char* of_this_machine : {"this machine", "does not fit", " free here:", "lack"})
    EXPECT_EQ(one_line(unknown.output).find(of_this_machine), std::string::npos) << unknown.output;
  EXPECT_NE(one_line(unknown.output).find("its free memory is not known here: the cluster's file has no `memory`"),
            std::string::npos)
      << unknown.output;
  EXPECT_TRUE(free_bytes().is_null()) << free_bytes();
  write("memory = \"100TiB\"\n");
  EXPECT_EQ(free_bytes(), std::int64_t{100} << 40);
  EXPECT_NE(one_line(folder_.zero(huge).output).find("100 TiB are there in the cluster: it fits"), std::string::npos)
      << folder_.zero(huge).output;
  write("memory = \"1GiB\"\n");
  const std::string lacks = one_line(folder_.zero(huge).output);
  EXPECT_NE(lacks.find("1.00 GiB are there in the cluster: it does not fit, "), std::string::npos) << lacks;
}

TEST_F(PlanSlow, ClusterPlanCoversCutsAndModes) {
  folder_.write("cluster.toml", "[cluster]\nhosts = 1\nranks = 4\nwithin = \"1GB\"\njitter = 0.5\nflops = 1e12\n");
  const auto ways = [&](const std::string& flags) {
    const Ran ran = folder_.zero("plan c.toml --json --cluster cluster.toml " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return nlohmann::json::parse(ran.output, nullptr, false)["cluster"];
  };
  for (const char* shards : {"range", "whole", "hash", "weighted", "weighted --zero.shard_weights=[3,3,1,1]"}) {
    const auto found = ways(std::string("--zero.shards ") + shards);
    EXPECT_GE(found["planned"].get<int>(), 0) << shards;
    EXPECT_GT(found["ways"][found["planned"].get<int>()]["seconds"].get<double>(), 0) << shards;
  }
  for (const char* mode : {"stale", "async", "sync --sync.servers 1 --sync.quorum 2", "local"}) {
    const auto found = ways(std::string("--sync.mode ") + mode);
    EXPECT_GE(found["planned"].get<int>(), 0) << mode;
  }
}

TEST_F(PlanSlow, PlansTenThousandRanks) {
  folder_.write("cluster.toml", "[cluster]\nhosts = 1250\nranks = 8\nnetwork = \"10GB\"\nflops = 1e12\n");
  const Ran ran = folder_.zero("plan c.toml --cluster cluster.toml --train.global_batch 10000", "timeout 30");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  const std::string said = one_line(ran.output);
  for (const char* part : {"cluster: 1,250 machines of 8 ranks", "best: --zero.stage ", "at most 64 ranks"})
    EXPECT_NE(said.find(part), std::string::npos) << part << '\n' << ran.output;
}

// No disk here holds the model.
TEST_F(PlanSlow, RanksShareOneDisksRoom) {
  const auto room = [&](const std::string& ranks) {
    const Ran ran = folder_.zero(
        "plan c.toml --model.layers 96 --model.width 49152 --zero.disk disk --zero.device_memory 1TiB "
        "--zero.host_memory min --world " +
        ranks);
    EXPECT_EQ(ran.status, 2) << ran.errors;
    const std::string words = "disk: a rank may take ";
    const std::size_t at = ran.errors.find(words);
    return at == std::string::npos ? 0.0 : std::stod(ran.errors.substr(at + words.size()));
  };
  const double alone = room("1");
  ASSERT_GT(alone, 0);
  EXPECT_NEAR(room("2") / alone, 0.5, 0.1);
}

TEST_F(PlanSlow, CountsTheTimeOfMuonsMatrices) {
  const std::string wide = "--model.width 512";
  const auto update = [](const nlohmann::json& json) { return json["predicted"]["update"]["seconds"].get<double>(); };
  EXPECT_GT(update(plan(wide + " --optimizer.name muon")), 2 * update(plan(wide)));
}

// The plan must not treat a disk without enough room as a fast disk.
TEST_F(PlanSlow, SmallDiskIsNotFast) {
  const Ran little =
      folder_.zero("plan c.toml -n 2 --zero.disk disk --zero.disk_memory 1MiB --zero.optimizer '{disk = 1}'");
  EXPECT_NE(one_line(little.output).find("without the disk, which may be too small"), std::string::npos)
      << little.output;
  EXPECT_EQ(plan("--zero.disk disk")["predicted"]["counts_disk"], true) << "no state goes to disk";
  const Ran here = folder_.zero("plan c.toml -n 2 --zero.disk disk --zero.optimizer '{disk = 1}'");
  EXPECT_EQ(one_line(here.output).find("without the disk"), std::string::npos) << here.output;
}

}  // namespace
}  // namespace zero
