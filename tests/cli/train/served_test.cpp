// Servers: `--sync.servers`, `--sync.mode stale` and `async`, from the command to the run folder.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"
#include "tests/support/json_lines.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class Served : public TrainingTest {
 protected:
  Served() : TrainingTest(small_gpt(at_one_rate("steps = 8\nbatch = 2\nclip = 0.25\neval_every = 4\n"))) {}
};
using ServedSlow = Served;

// The bits equal those of a run of the same workers without servers.
TEST_F(ServedSlow, WithoutStalenessMatchWorkersBits) {
  const Json plain = report_of("-n 2", "plain");
  const Json served = report_of("-n 3 --sync.mode stale", "served");
  ASSERT_TRUE(served.is_object());
  EXPECT_EQ(served.at("loss_bits"), plain.at("loss_bits"));
  EXPECT_EQ(served.at("parameters_sha256"), plain.at("parameters_sha256"));
  EXPECT_EQ(served.at("served").at("workers"), 2);
  EXPECT_EQ(served.at("served").at("updates"), 8);
  const Json threads = report_of("-n 4 --comm.transport in_process --sync.servers 2", "threads");
  EXPECT_EQ(threads.at("parameters_sha256"), plain.at("parameters_sha256"));
  std::vector<Json> runs{served, threads};
  if (ZERO_HAS_GLOO) runs.push_back(report_of("-n 4 --comm.transport gloo --sync.mode stale --sync.servers 2", "gloo"));
  EXPECT_EQ(runs.back().at("parameters_sha256"), plain.at("parameters_sha256"));
  for (const Json& run : runs) EXPECT_EQ(run.at("grad_norms"), plain.at("grad_norms"));
  for (const Json& norm : plain.at("grad_norms")) EXPECT_GT(norm, 0.25) << "the test must clip";
}

TEST_F(ServedSlow, OffloadedServersHaveSameBits) {
  std::filesystem::create_directory(folder_.path() / "states");
  const std::string stale = "-n 4 --sync.mode stale --sync.servers 2 --sync.staleness 1 ",
                    off = stale + "--zero.optimizer {disk=1} --zero.parameter {host=1} --zero.disk states ";
  const Json plain = report_of(stale, "plain");
  std::vector<std::string> transports{"shared_memory"};
  if (ZERO_HAS_GLOO) transports.emplace_back("gloo");
  for (const std::string& transport : transports) {
    const Json placed = report_of(off + "--comm.transport " + transport, "placed-" + transport);
    ASSERT_TRUE(placed.is_object()) << transport;
    EXPECT_EQ(placed.at("loss_bits"), plain.at("loss_bits")) << transport;
    EXPECT_EQ(placed.at("parameters_sha256"), plain.at("parameters_sha256")) << transport;
    EXPECT_GT(placed.at("disk_bytes"), 0) << transport;
    EXPECT_GT(placed.at("host_memory_bytes"), 0) << transport;
  }
}

TEST_F(ServedSlow, OneWorkerMatchesOneRank) {
  const Json alone = report_of("-n 1", "alone");
  ASSERT_TRUE(alone.is_object());
  std::vector<std::string> transports{"shared_memory"};
  if (ZERO_HAS_GLOO) transports.emplace_back("gloo");
  for (const std::string& transport : transports) {
    const Json served =
        report_of("-n 2 --sync.mode async --sync.servers 1 --comm.transport " + transport, "served-" + transport);
    ASSERT_TRUE(served.is_object()) << transport;
    EXPECT_EQ(served.at("transport"), transport);
    EXPECT_EQ(served.at("loss_bits"), alone.at("loss_bits")) << transport;
    EXPECT_EQ(served.at("grad_norms"), alone.at("grad_norms")) << transport;
    EXPECT_EQ(served.at("parameters_sha256"), alone.at("parameters_sha256")) << transport;
    EXPECT_EQ(served.at("served").at("most_age"), 0) << transport;
  }
  for (const Json& norm : alone.at("grad_norms")) EXPECT_GT(norm, 0.25) << "the test must clip";
}

TEST_F(ServedSlow, StaleRunsContinueWithSameBits) {
  const std::string stale = "-n 4 --sync.mode stale --sync.servers 2 --sync.staleness 2 ";
  const Json whole = report_of(stale, "whole");
  ASSERT_TRUE(report_of(stale + "--train.steps 5 --checkpoint.every 5", "halves").is_object());
  const Json rest = report_of(stale + "--checkpoint.every 5", "halves");
  EXPECT_EQ(rest.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));
  EXPECT_EQ(whole.at("served").at("most_age"), 2);
}

TEST_F(ServedSlow, AsynchronousRunsApplyEachGradient) {
  const Json report = report_of("-n 4 --sync.mode async --sync.staleness 1", "run");
  const Json& served = report.at("served");
  EXPECT_EQ(served.at("updates"), 3 * 8);
  EXPECT_EQ(served.at("dropped"), 0);
  EXPECT_EQ(served.at("gradients_of_workers"), (Json{8, 8, 8}));
  EXPECT_LE(served.at("most_age").get<int>(), 2 * 3);
  std::int64_t updates = 0;
  for (const Json& line : json_lines(folder_.read("run/metrics.jsonl")))
    if (line.contains("served")) updates += line.at("served").at("updates").get<std::int64_t>();
  EXPECT_EQ(updates, 3 * 8);
}

TEST_F(ServedSlow, EachRankHasItsFigures) {
  const Json report =
      report_of("-n 3 --sync.mode stale --sync.staleness 1 --train.log_every 8 --train.eval_every 0", "run");
  ASSERT_TRUE(report.is_object());
  std::int64_t steps = 0, most_age = 0;
  std::vector<std::int64_t> gradients(3);
  double pushed = 0;
  for (const Json& line : json_lines(folder_.read("run/metrics.jsonl"))) {
    if (!line.contains("ranks")) continue;
    const Json& ranks = line.at("ranks");
    steps += ranks.at("steps").get<std::int64_t>();
    for (std::size_t rank = 0; rank < 3; ++rank) gradients[rank] += ranks.at("gradients").at(rank).get<std::int64_t>();
    EXPECT_EQ(ranks.at("wait_seconds").size(), 3U);
    EXPECT_EQ(ranks.at("age").at(0), nullptr) << "a server";
    if (const Json& age = ranks.at("most_age").at(1); age.is_number())
      most_age = std::max(most_age, age.get<std::int64_t>());
    const Json& sent = ranks.at("sent_bytes").at("served").at("none").at(2);
    if (sent.is_number()) pushed = sent.get<double>();
  }
  EXPECT_EQ(steps, 8);
  EXPECT_EQ(gradients, (std::vector<std::int64_t>{0, 8, 8}));
  EXPECT_EQ(most_age, 1);
  EXPECT_EQ(2 * 8 * pushed, report.at("served").at("pushed_bytes").get<double>()) << "one push a step";
}

TEST_F(ServedSlow, AsynchronousRunsAreReplayed) {
  const std::string async = "-n 4 --sync.mode async --sync.staleness 2 ";
  const Json recorded = report_of(async, "recorded");
  const Json replayed = report_of(async + "--replay recorded", "replayed");
  EXPECT_EQ(replayed.at("loss_bits"), recorded.at("loss_bits"));
  EXPECT_EQ(replayed.at("parameters_sha256"), recorded.at("parameters_sha256"));
  EXPECT_EQ(folder_.read("replayed/pushes.log"), folder_.read("recorded/pushes.log"));
  const Ran other = folder_.zero("train c.toml --run.dir other --train.seed 1 --replay recorded " + async);
  EXPECT_EQ(other.status, 2);
  EXPECT_CONTAINS(other.errors, "that run has another configuration");
  EXPECT_CONTAINS(other.errors, "train.seed = 1337 -> 1");
  EXPECT_EQ(other.errors.find("run.dir"), std::string::npos) << other.errors;
  EXPECT_CONTAINS(other.errors, "use its own config.toml");
  // The line names another worker's push, but keeps the old checksum.
  std::string log = folder_.read("recorded/pushes.log");
  const std::size_t line = log.find("\npush ") + 1, worker = line + std::string("push ").size();
  log[worker] = log[worker] == '0' ? '1' : '0';
  folder_.write("recorded/pushes.log", log);
  const Ran changed = folder_.zero("train c.toml --run.dir changed --replay recorded " + async);
  EXPECT_EQ(changed.status, 2) << changed.output;
  EXPECT_CONTAINS(changed.errors, "recorded/pushes.log: line 6: it was changed after it was written");
  EXPECT_CONTAINS(changed.errors, "give the folder of a run as `zero train` left it");
  for (const char* refused : {"other", "changed"})
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / refused)) << refused;
}

// The last bits depend on the number of threads, so a replay takes that of the recorded run. They do not depend on the
// transport.
TEST_F(ServedSlow, ReplayTakesThreadsOverAnyTransport) {
  const std::string async = "-n 2 --sync.mode async --train.batch 8 ";
  const Json recorded = report_of(async + "--run.threads 2 ", "recorded");
  ASSERT_TRUE(recorded.is_object());
  for (const char* other : {"", "--run.threads 1", "--comm.transport in_process --comm.timeout 50s"}) {
    const Json replayed = report_of(async + "--overwrite --replay recorded " + other, "replayed");
    ASSERT_TRUE(replayed.is_object()) << other;
    EXPECT_EQ(replayed.at("threads"), 2) << other;
    EXPECT_EQ(replayed.at("parameters_sha256"), recorded.at("parameters_sha256")) << other;
    EXPECT_EQ(folder_.read("replayed/pushes.log"), folder_.read("recorded/pushes.log")) << other;
  }
}

TEST_F(ServedSlow, ReplayWithOtherInstructionsIsRefused) {
  const std::string async = "-n 2 --sync.mode async ";
  ASSERT_TRUE(report_of(async, "recorded").is_object());
  for (const char* variable : {"ATEN_CPU_CAPABILITY=default", "ONEDNN_MAX_CPU_ISA=SSE41"}) {
    const Ran ran = folder_.zero("train c.toml --run.dir other --replay recorded " + async, variable);
    EXPECT_EQ(ran.status, 2) << variable;
    EXPECT_CONTAINS(ran.errors, "--replay = recorded: the bits would differ: rank 0 computed with ");
    EXPECT_CONTAINS(ran.errors,
                    "replay with the same versions and settings, on a processor with the same instructions");
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "other"));
  }
  const Ran more = folder_.zero("train c.toml --run.dir other --replay recorded -n 3 --sync.mode async");
  EXPECT_EQ(more.status, 2);
  EXPECT_CONTAINS(more.errors, "that run has another configuration: train.global_batch = 2 -> 4");
}

TEST_F(ServedSlow, TruncatedLogIsNotReplayed) {
  const std::string async = "-n 3 --sync.mode async --sync.staleness 2 ";
  ASSERT_TRUE(report_of(async, "recorded").is_object());
  std::string log = folder_.read("recorded/pushes.log");
  EXPECT_EQ(std::ranges::count(log, '\n'), 1 + 3 + 2 * 8 + 1)
      << "one line per rank and push, between the first and the last";
  for (const int left : {20, 11}) {  // number of lines: without one, and without ten
    while (std::ranges::count(log, '\n') > left) log.erase(log.rfind('\n', log.size() - 2) + 1);
    folder_.write("recorded/pushes.log", log);
    const Ran cut = folder_.zero("train c.toml --run.dir cut --replay recorded " + async);
    EXPECT_EQ(cut.status, 2) << cut.output;
    EXPECT_CONTAINS(cut.errors, fmt::format("recorded/pushes.log: line {}: the log ends here", left));
    EXPECT_CONTAINS(cut.errors, "give the folder of a run that did all its steps");
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "cut")) << left;
  }
}

TEST_F(ServedSlow, BytesAreThoseOfTheFormula) {
  const Json report = report_of("-n 3 --sync.servers 1 --train.eval_every 0", "run");
  const Ran ran = folder_.zero("plan c.toml --world 3 --sync.servers 1 --json");
  const Json plan = Json::parse(ran.output, nullptr, false);
  ASSERT_TRUE(plan.is_object()) << ran.errors;
  const Json& planned = plan.at("served");
  EXPECT_EQ(planned.at("workers"), 2);
  const std::int64_t clocks = 2 * 8;  // sum of both workers
  EXPECT_EQ(report.at("served").at("pushed_bytes"), clocks * planned.at("pushed_bytes").get<std::int64_t>());
  EXPECT_EQ(report.at("served").at("pulled_bytes"), clocks * planned.at("pulled_bytes").get<std::int64_t>());
}

TEST_F(ServedSlow, ArePlanned) {
  const Ran text = folder_.zero("plan c.toml --world 5 --sync.mode async --sync.servers 2 --sync.staleness 4");
  EXPECT_EQ(text.status, 0) << text.errors;
  EXPECT_CONTAINS(text.output, "stage 3 on 2 servers");
  EXPECT_CONTAINS(text.output, "a worker");
  EXPECT_CONTAINS(text.output, "sync.mode async, staleness 4: 2 servers and 3 workers");
}

TEST_F(ServedSlow, RefusesImpossibleOnesBeforeStarting) {
  const auto refused = [&](const std::string& flags, const std::string& reason) {
    const Ran ran = folder_.zero("train c.toml --run.dir run " + flags);
    EXPECT_EQ(ran.status, 2) << flags;
    EXPECT_CONTAINS(ran.errors, reason);
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run")) << flags;
  };
  refused("--sync.mode async", "sync.servers = 1: no rank is left for a worker: the run has 1 rank");
  refused("-n 2 --sync.servers 2", "sync.servers = 2: no rank is left for a worker: the run has 2 ranks");
  refused("-n 2 --sync.mode stale --sync.servers 0", "sync.servers = 0");
  refused("-n 2 --sync.staleness 1", "sync.staleness = 1: with sync.mode sync no gradient is stale");
  refused("-n 3 --sync.servers 1 --sync.quorum 3", "sync.quorum = 3: there are 2 workers");
  refused("-n 3 --sync.mode async --sync.quorum 1", "sync.quorum = 1");
  refused("-n 3 --sync.mode stale --sync.stale_lr 2", "sync.stale_lr = 2");
  refused("-n 3 --sync.mode stale --sync.compensation 0.1", "sync.compensation = 0.1: only sync.mode async applies");
  refused("-n 3 --sync.mode local --sync.servers 1", "sync.servers = 1: copies that train apart have no servers");
  refused("-n 3 --sync.servers 1 --zero.stage 2", "zero.stage = 2");
  refused("-n 3 --sync.servers 1 --zero.group 1", "zero.group = 1");
  refused("-n 3 --sync.servers 1 --zero.delayed_update true", "zero.delayed_update = true");
  refused("-n 3 --sync.servers 1 --train.dtype fp16", "train.dtype");
  refused("-n 3 --sync.servers 1 --train.share auto", "train.share");
  refused("-n 3 --sync.servers 1 --train.gradient_noise 0.1", "train.gradient_noise = 0.1");
  refused("-n 3 --sync.servers 1 --health.spike rewind", "health.spike");
}

}  // namespace
}  // namespace zero
