// `--zero.group`: each group of processes holds one copy of the model. Such runs train the same model as other runs,
// continue their checkpoints, and report the bytes between groups.
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/environment_variable.h"
#include "tests/support/message_of.h"
#include "tests/support/one_line.h"
#include "tests/support/unclaimed_port.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class Groups : public TrainingTest {
 protected:
  Groups()
      : TrainingTest(
            small_gpt(at_one_rate("steps = 6\nbatch = 1\naccumulate = 2\nclip = 0.25\n"), "validation = 0\n")) {}
};
using GroupsSlow = Groups;

TEST_F(GroupsSlow, TrainAndContinueWithSameBits) {
  const Json whole = report_of("-n 4", "whole");
  ASSERT_TRUE(whole.is_object());
  EXPECT_FALSE(whole.contains("copies"));
  const Json half = report_of("-n 4 --zero.group 2 --train.steps 3 --checkpoint.every 3", "halves");
  ASSERT_TRUE(half.is_object());
  EXPECT_EQ(half.at("transport"), "shared_memory");
  EXPECT_EQ(half.at("copies").at("number"), 2);
  for (const Json& sent : half.at("copies").at("sent_bytes_per_step")) {
    EXPECT_EQ(sent, half.at("copies").at("planned_sent_bytes"));
    EXPECT_GE(sent, half.at("copies").at("formula").at("sent_bytes"));
  }
  EXPECT_EQ(half.at("sent_bytes_per_step")[3], half.at("planned_sent_bytes"));
  EXPECT_TRUE(says(folder_.read("halves/metrics.jsonl"), R"("sent_between_copies": )"));
  const Json rest = report_of("-n 4 --zero.stage 1 --zero.group 1 --checkpoint.every 3", "halves");
  ASSERT_TRUE(rest.is_object());
  EXPECT_EQ(rest.at("loss_bits"), whole.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));
  EXPECT_EQ(rest.at("grad_norms"), whole.at("grad_norms"));
  for (const Json& norm : whole.at("grad_norms")) EXPECT_GT(norm, 0.25) << "the test must clip";
}

// The size of a group must divide the number of ranks.
TEST_F(GroupsSlow, RefusesSizesThatLeaveARemainder) {
  const Ran ran = folder_.zero("train c.toml -n 4 --zero.group 3", "timeout 60");
  EXPECT_EQ(ran.status, 2) << ran.errors;
  EXPECT_TRUE(says(ran.errors, "zero.group = 3: 4 ranks cannot be divided into groups of this size"));
  EXPECT_TRUE(says(ran.errors, "one of 1, 2, 4"));
  EXPECT_EQ(folder_.zero("plan c.toml -n 4 --zero.group 3").status, 2);
}

TEST_F(GroupsSlow, PlanCountsRanksOfOneCopy) {
  const auto plan = [&](const std::string& flags) {
    const Ran ran = folder_.zero("plan c.toml --json " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return Json::parse(ran.output, nullptr, false);
  };
  const Json two = plan("-n 2"), four = plan("-n 4 --zero.group 2");
  ASSERT_TRUE(two.is_object() && four.is_object());
  EXPECT_EQ(four.at("shard_ranks"), 2);
  EXPECT_EQ(four.at("copies"), 2);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const Json &of_two = two.at("stages")[stage], &of_four = four.at("stages")[stage];
    EXPECT_EQ(of_four.at("memory_bytes"), of_two.at("memory_bytes"));
    const auto crossing = of_four.at("between_copies").at("sent_bytes").get<std::int64_t>();
    EXPECT_EQ(of_four.at("sent_bytes"), of_two.at("sent_bytes").get<std::int64_t>() + crossing);
    EXPECT_GT(crossing, 0);
  }
  const Ran text = folder_.zero("plan c.toml -n 4 --zero.group 2");
  EXPECT_TRUE(says(text.output, "copies     2 of the model, each on 2 ranks")) << text.output;
}

TEST_F(GroupsSlow, DefaultToRanksOfOneMachine) {
  const auto plan = [&](const std::string& flags) {
    const Ran ran = folder_.zero("plan c.toml -n 4 --machines 2 " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return one_line(ran.output);
  };
  const std::string chosen = plan("");
  EXPECT_TRUE(says(chosen, "copies 2 of the model, each on 2 ranks")) << chosen;
  EXPECT_TRUE(says(chosen, "zero.group auto: the 2 ranks of each machine hold one copy of the model")) << chosen;
  for (const char* named : {"--zero.group 0", "--zero.stage 0", "--sync.servers 1"})
    EXPECT_FALSE(says(plan(named), "zero.group auto")) << named;
  EXPECT_TRUE(says(plan("--comm.reduce_wire int8"), "all 4 ranks hold one copy of the model: comm.gather_wire and"));
  EXPECT_FALSE(says(plan("--comm.reduce_wire int8"), "copies 2"));
}

// Also, all ranks form one group if each machine has one rank.
TEST_F(GroupsSlow, AllRanksIfMachinesLackRoom) {
  const Ran alone = folder_.zero("plan c.toml -n 2 --machines 2");
  EXPECT_TRUE(says(one_line(alone.output), "all 2 ranks hold one copy of the model: each machine has one rank"));
  // The budget suffices for a rank of four, but not for a rank of two.
  const Json four = Json::parse(folder_.zero("plan c.toml -n 4 --zero.group 0 --json").output);
  const auto states = four.at("stages")[3].at("memory_bytes").at("total").get<std::int64_t>();
  const Ran small =
      folder_.zero("plan c.toml -n 4 --machines 2 --zero.device_memory " + std::to_string(2 * states) + "B");
  EXPECT_EQ(small.status, 0) << small.errors;
  EXPECT_TRUE(says(one_line(small.output), "all 4 ranks hold one copy of the model: those of one machine would need"))
      << small.output;
}

// A sum passes from copy to copy. With many copies, this takes longer than gathers over all ranks.
TEST_F(GroupsSlow, AllRanksForALongChain) {
  const auto plan = [&](const std::string& flags) {
    const Ran ran = folder_.zero("plan c.toml --train.batch 1 " + flags);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return one_line(ran.output);
  };
  EXPECT_TRUE(says(plan("-n 8 --machines 2"), "the 4 ranks of each machine hold one copy of the model"));
  const std::string many = plan("-n 256 --machines 64");
  EXPECT_TRUE(says(many, "all 256 ranks hold one copy of the model: sums along the chain of 64 copies would take"))
      << many;
}

// Several machines according to the launcher's flags. All ranks run on this machine.
class GroupsOfMachines : public Groups {
 protected:
  // Returns rank 0's output. `sizes` has the number of ranks of each machine.
  Ran train_on(const std::vector<int>& sizes, const std::string& run, const std::string& flags = "") const {
    int world = 0, rank = 0;
    for (const int size : sizes) world += size;
    std::string others, first;
    const std::string port = std::to_string(unclaimed_port());
    for (const int size : sizes) {
      for (int place = 0; place < size; ++place, ++rank) {
        const std::string command = fmt::format(
            "train c.toml --comm.transport gloo --master-addr 127.0.0.1 --master-port {} --rank {} --world-size {} "
            "--local-rank {} --local-world-size {} --run.dir {} {}",
            port, rank, world, place, size, run, flags);
        if (rank == 0)
          first = command;
        else
          others += fmt::format("timeout 200 '{}' {} >/dev/null 2>&1 & ", built::kCommand, command);
      }
    }
    return folder_.zero(first, fmt::format("{{ {} }} && timeout 200", others));
  }
  const EnvironmentVariable token_{"ZERO_TOKEN", "a token of the tests"}, interface_{"ZERO_COMM_INTERFACE", "lo"};
};

// The bits equal those of one group of all ranks.
TEST_F(GroupsOfMachines, OneMachineGroupsKeepBits) {
  if (!ZERO_HAS_GLOO) GTEST_SKIP() << "the plug-in gloo is not built";
  const Ran ran = train_on({2, 2}, "machines");
  EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
  EXPECT_TRUE(says(ran.output, "zero.group auto: the 2 ranks of each machine hold one copy of the model"))
      << ran.output;
  const Json report = Json::parse(folder_.read("machines/report.json"));
  EXPECT_EQ(report.at("copies").at("number"), 2);
  EXPECT_EQ(report.at("parameters_sha256"), report_of("-n 4", "one").at("parameters_sha256"));
  EXPECT_TRUE(says(folder_.read("machines/config.toml"), "group = \"auto\""));
}

TEST_F(GroupsOfMachines, UnequalMachinesShareOneModel) {
  if (!ZERO_HAS_GLOO) GTEST_SKIP() << "the plug-in gloo is not built";
  const Ran ran = train_on({2, 1}, "unequal");
  EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
  EXPECT_TRUE(
      says(ran.output, "zero.group auto: all 3 ranks hold one copy of the model: the machines have unequal numbers"))
      << ran.output;
  EXPECT_FALSE(Json::parse(folder_.read("unequal/report.json")).contains("copies"));
}

}  // namespace
}  // namespace zero
