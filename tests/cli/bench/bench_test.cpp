#include <cmath>
#include <csignal>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/device/open_device.h"

#include "tests/cli/command.h"
#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"
#include "tests/support/mpirun.h"
#include "tests/support/occurrences.h"

namespace zero {
namespace {

// Runs a benchmark. The tests check only that it prints numbers in the right units, not their size.
nlohmann::json bench(const std::string& arguments) {
  const Folder folder;
  const Ran ran = folder.zero("bench " + arguments + " --json");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  return nlohmann::json::parse(ran.output, nullptr, false);
}

TEST(Bench, RuleGivesRatiosOfItsTimes) {
  const auto json = bench("optimizer --mib 4 --threads 2");
  EXPECT_EQ(json["array_bytes"], 4 << 20);
  EXPECT_DOUBLE_EQ(json["ratio_best"].get<double>(),
                   json["probe_best_s"].get<double>() / json["update_best_s"].get<double>());
  EXPECT_GE(json["update_median_s"].get<double>(), json["update_best_s"].get<double>());
}

TEST(Bench, UpdateIsMeasuredInRunTypes) {
  for (const char* dtype : {"bf16", "fp16"}) {
    for (const char* name : {"adamw", "lamb", "adafactor", "adamw8bit"}) {
      const auto json = bench("optimizer --mib 1 --name " + std::string(name) + " --dtype " + dtype);
      EXPECT_EQ(json["dtype"], dtype) << name;
      EXPECT_GT(json["ratio_median"].get<double>(), 0) << name;
    }
  }
  const Folder folder;
  EXPECT_EQ(folder.zero("bench optimizer --ema 1").status, 2);
  EXPECT_EQ(folder.zero("bench optimizer --dtype int8").status, 2);
  EXPECT_EQ(folder.zero("bench optimizer --device cuda --dtype bf16").status, 2);
}

TEST(Bench, AverageIsMeasuredWithEveryState) {
  for (const char* dtype : {"fp32", "bf16"}) {
    for (const char* name : {"adamw", "lamb", "adafactor", "adamw8bit", "muon_step"}) {
      const auto json = bench("optimizer --mib 1 --ema 0.999 --name " + std::string(name) + " --dtype " + dtype);
      EXPECT_EQ(json["ema"], 0.999) << name;
      EXPECT_GT(json["probe_best_s"].get<double>(), 0) << name;
      EXPECT_GT(json["ratio_median"].get<double>(), 0) << name;
    }
  }
}

TEST(Bench, MuonPassesAreMeasuredSeparately) {
  for (const char* dtype : {"fp32", "bf16", "fp16"}) {
    for (const char* name : {"muon_direct", "muon_step"}) {
      const auto json = bench("optimizer --mib 1 --threads 2 --name " + std::string(name) + " --dtype " + dtype);
      EXPECT_EQ(json["name"], name);
      EXPECT_DOUBLE_EQ(json["ratio_median"].get<double>(),
                       json["probe_median_s"].get<double>() / json["update_median_s"].get<double>());
    }
  }
  const Folder folder;
  const std::string direct = folder.zero("bench optimizer --mib 1 --name muon_direct --dtype bf16").output;
  EXPECT_CONTAINS(direct, "2 arrays of 1 MiB and 1 in bf16");  // momentum and directions; gradient
  const std::string step = folder.zero("bench optimizer --mib 1 --name muon_step --dtype bf16").output;
  EXPECT_CONTAINS(step, "2 arrays of 1 MiB and 1 in bf16");  // parameter and directions; the rounded parameter
  const Ran averaged = folder.zero("bench optimizer --name muon_direct --ema 0.999");
  EXPECT_EQ(averaged.status, 2);
  EXPECT_CONTAINS(averaged.errors, "--ema = 0.999: muon_direct changes no weights");
  EXPECT_CONTAINS(averaged.errors, "measure muon_step");
  EXPECT_EQ(folder.zero("bench optimizer --name muon").status, 2) << "as a whole it is products: zero bench muon";
}

TEST(Bench, RefusesUpdateOnMissingDevice) {
  const Folder folder;
  for (const char* bench : {"optimizer --mib 4", "optimizer --mib 4 --name muon_direct", "muon --rows 8 --columns 8"}) {
    if (!ZERO_CAN_TRAIN && std::string_view(bench).starts_with("muon")) continue;
    const Ran ran = folder.zero("bench " + std::string(bench) + " --device cuda:7");
    EXPECT_EQ(ran.status, 2) << bench;
    EXPECT_NE(ran.errors.find("run.device = cuda:7: "), std::string::npos) << ran.errors;
  }
}

TEST(Bench, RefusesOffloadAndCommOnce) {
  if (!find_gpus(/*memory=*/false).gpus.empty()) GTEST_SKIP() << "a GPU is there";
  const Folder folder;
  for (const char* part : {"offload", "comm"}) {
    const Ran ran = folder.zero(std::string("bench ") + part + " --mib 4 --device cuda");
    EXPECT_EQ(ran.status, 2) << ran.errors;
    EXPECT_EQ(occurrences("run.device = cuda: ", ran.errors), 1) << ran.errors;
    EXPECT_NE(ran.errors.find("cpu"), std::string::npos) << ran.errors;
    EXPECT_EQ(folder.zero(std::string("bench ") + part + " --device toaster").status, 2);
  }
}

TEST(Bench, DeviceOffloadGivesOwnRatios) {
  const auto json = bench("offload --mib 3 --rounds 2 --depth 2 --device cpu");
  EXPECT_EQ(json["device"], "host");
  const auto& copies = json["copies"];
  for (const char* way : {"up", "down", "both", "from_disk", "to_disk"}) {
    const auto& each = copies[way];
    EXPECT_EQ(each["bytes"], (std::string(way) == "both" ? 6 : 3) << 20);
    EXPECT_GT(each["best_s"].get<double>(), 0);
    EXPECT_DOUBLE_EQ(each["ratio_median"].get<double>(),
                     each["bare_median_s"].get<double>() / each["median_s"].get<double>());
  }
  for (const char* step : {"step_on_host", "step_on_disk"}) {
    const auto& each = json[step];
    EXPECT_DOUBLE_EQ(each["ratio_best"].get<double>(),
                     each["best_s"].get<double>() / each["limit_best_s"].get<double>());
  }
  EXPECT_GE(json["step_on_disk"]["limit_best_s"].get<double>(), json["step_on_host"]["limit_best_s"].get<double>());
  EXPECT_GE(json["step_on_host"]["limit_median_s"].get<double>(), json["update_median_s"].get<double>());
}

TEST(Bench, DeviceCommMeasuresGatherAndSum) {
  const auto json = bench("comm --mib 1 --rounds 2 --transports shared_memory --device cpu");
  EXPECT_EQ(json["device"], "host");
  const auto& series = json["transports"][0];
  EXPECT_EQ(series["way"], "in place");
  ASSERT_EQ(series["sizes"].size(), 2u) << json.dump();
  for (const auto& row : series["sizes"]) {
    for (const char* each : {"gather", "sum"}) {
      EXPECT_GT(row[each]["best_s"].get<double>(), 0);
      EXPECT_DOUBLE_EQ(row[each]["ratio_best"].get<double>(),
                       row[each]["copies_best_s"].get<double>() / row[each]["best_s"].get<double>());
    }
  }
}

TEST(Bench, CommLeavesNcclToGpus) {
  const Folder folder;
  const Ran ran = folder.zero("bench comm --mib 1 --transports nccl --device cpu");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("--device cuda"), std::string::npos) << ran.errors;
}

TEST(Bench, MuonComputesWhatLibtorchDoes) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  const auto json = bench("muon --rows 96 --columns 40 --threads 2");
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_GT(json["planned_s"].get<double>(), 0);
  EXPECT_LT(json["relative_difference"].get<double>(), 1e-3);
  EXPECT_DOUBLE_EQ(json["ratio_seconds"].get<double>(),
                   json["zero_median_s"].get<double>() / json["libtorch_median_s"].get<double>());
  EXPECT_DOUBLE_EQ(json["ratio_flops_per_second"].get<double>(),
                   json["zero_flops_per_second"].get<double>() / json["libtorch_flops_per_second"].get<double>());
}

TEST(Bench, CommMeasuresEverySize) {
  const auto json = bench("comm --mib 1 --rounds 2 --transports shared_memory");
  ASSERT_EQ(json["transports"].size(), 1u) << json.dump();
  EXPECT_EQ(json["transports"][0]["transport"], "shared_memory");
  ASSERT_EQ(json["transports"][0]["sizes"].size(), 2u) << json.dump();
  for (const auto& row : json["transports"][0]["sizes"]) {
    EXPECT_GT(row["all_reduce_best_s"].get<double>(), 0);
    EXPECT_TRUE(std::isfinite(row["ratio_best"].get<double>()));
  }
}

TEST(Bench, CommRefusesUnknownTransportOnce) {
  const Folder folder;
  const Ran ran = folder.zero("bench comm --mib 1 --transports pigeon");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("pigeon"), std::string::npos) << ran.errors;
}

TEST(Bench, CommLeavesMpisRanksToMpirun) {
  const Folder folder;
  const Ran alone = folder.zero("bench comm --mib 1 --transports mpi");
  EXPECT_EQ(alone.status, 2);
  EXPECT_NE(alone.errors.find("mpirun -n 2 zero bench comm --transports mpi"), std::string::npos) << alone.errors;
  if (std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "this build has no mpirun";
  const Ran ran = folder.zero("bench comm --mib 1 --rounds 1 --transports mpi", mpirun_ranks(2));
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.output.find("all_reduce, 2 ranks, 1 rounds"), std::string::npos) << ran.output;
  const Ran unnamed = folder.zero("bench comm --mib 1 --rounds 1", mpirun_ranks(2));
  EXPECT_EQ(unnamed.status, 0) << unnamed.errors;
  EXPECT_EQ(occurrences("\n  shared_memory ", unnamed.output), 2) << unnamed.output;
}

TEST(Bench, OffloadGivesOwnRatios) {
  const auto json = bench("offload --mib 3 --rounds 2 --depth 2");
  EXPECT_EQ(json["moment_bytes"], 3 << 20);
  const auto median = [&](const char* part) { return json[std::string(part) + "_median_s"].get<double>(); };
  EXPECT_DOUBLE_EQ(json["ratio_median"].get<double>(),
                   median("step") / std::max({median("read"), median("write"), median("update")}));
  EXPECT_DOUBLE_EQ(json["ratio_in_turns_median"].get<double>(),
                   median("step") / std::max(median("read") + median("write"), median("update")));
  EXPECT_GT(json["step_best_s"].get<double>(), 0);
}

TEST(Bench, DiskGivesOwnRatios) {
  const auto json = bench("disk --mib 9 --rounds 2 --depth 4");
  EXPECT_EQ(json["bytes"], 16 << 20) << "whole blocks of 8 MiB";
  EXPECT_EQ(json["depth"], 4);
  for (const char* direction : {"write", "read"}) {
    const auto& times = json[direction];
    EXPECT_DOUBLE_EQ(times["ratio_best"].get<double>(),
                     times["probe_best_s"].get<double>() / times["tier_best_s"].get<double>());
    EXPECT_DOUBLE_EQ(times["ratio_median"].get<double>(),
                     times["probe_median_s"].get<double>() / times["tier_median_s"].get<double>());
    EXPECT_GE(times["tier_median_s"].get<double>(), times["tier_best_s"].get<double>());
  }
}

TEST(Bench, DiskMeasuresBothAndCleansUp) {
  const Folder folder;
  for (const char* name : {"one", "two"}) std::filesystem::create_directory(folder.path() / name);
  const Ran ran = folder.zero("bench disk --dir one --dir two --mib 8 --rounds 1 --engine threads --checksums");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.output.find("DiskTier (threads, "), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("2 paths"), std::string::npos) << ran.output;
  for (const char* name : {"one", "two"}) EXPECT_TRUE(std::filesystem::is_empty(folder.path() / name));
}

TEST(Bench, CheckpointGivesOwnRatios) {
  const auto json = bench("checkpoint --mib 9 --rounds 2 --ranks 3");
  EXPECT_EQ(json["bench"], "checkpoint");
  EXPECT_NEAR(json["bytes"].get<double>(), 9 << 20, 1 << 17) << "with headers";
  EXPECT_EQ(json["ranks"], 3);
  EXPECT_GT(json["stall"]["best_s"].get<double>(), 0);
  EXPECT_EQ(json["rounds"], 2);
  for (const char* direction : {"save", "load"}) {
    const auto& times = json[direction];
    for (const char* which : {"best", "median"}) {
      const auto seconds = [&](const std::string& name) { return times[name + which + "_s"].get<double>(); };
      EXPECT_GT(seconds(""), 0);
      EXPECT_DOUBLE_EQ(times[std::string("ratio_") + which].get<double>(), seconds("probe_") / seconds(""));
    }
    EXPECT_GE(times["median_s"].get<double>(), times["best_s"].get<double>());
    EXPECT_TRUE(times["restless"].is_boolean());
  }
}

TEST(Bench, CheckpointLeavesNoFile) {
  const Folder folder;
  std::filesystem::create_directory(folder.path() / "disk");
  const Ran ran = folder.zero("bench checkpoint --dir disk --mib 8 --rounds 1");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.output.find("MiB by 2 ranks, 1 round\n"), std::string::npos) << ran.output;
  for (const char* side : {"\n  save ", "\n  load "}) EXPECT_NE(ran.output.find(side), std::string::npos) << ran.output;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "disk"));
}

// The background command has begun when its folder is there.
TEST(Bench, StoppedCheckpointLeavesNoFile) {
  const Folder folder;
  std::filesystem::create_directory(folder.path() / "disk");
  const Ran ran = folder.zero(
      "--version; '" + std::string(built::kCommand) +
      "' bench checkpoint --dir disk --mib 8 --rounds 1000 & bench=$!; "
      "until [ -n \"$(ls disk)\" ] || ! kill -0 $bench; do sleep 0.01; done; kill -TERM $bench; wait $bench");
  EXPECT_EQ(ran.status, 128 + SIGTERM) << ran.errors;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "disk"));
}

TEST(Bench, StepTakesFp16AndLeaves) {
  if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
  const Folder folder;
  folder.write("c.toml", small_gpt("[train]\nbatch = 2\n[run]\nthreads = 1\n"));
  for (const char* flags : {"--train.dtype fp16", "--train.leaves 4"}) {
    const Ran ran = folder.zero(std::string("bench step c.toml --rounds 2 --json ") + flags);
    ASSERT_EQ(ran.status, 0) << flags << ran.errors;
    EXPECT_GT(nlohmann::json::parse(ran.output, nullptr, false)["zero_step_s"].get<double>(), 0) << flags;
  }
}

TEST(Bench, RefusesWhatItCannotMeasure) {
  const Folder folder;
  EXPECT_NE(folder.zero("bench optimiser").errors.find("did you mean 'optimizer'?"), std::string::npos);
  EXPECT_EQ(folder.zero("bench optimizer --mib 0").status, 2);
  EXPECT_EQ(folder.zero("bench optimizer --rounds 4").status, 2) << "fewer than five rounds make no median";
  EXPECT_NE(folder.zero("bench optimizer --mib 1048576").errors.find("are needed"), std::string::npos);
  EXPECT_NE(folder.zero("bench disk --dir /nowhere").errors.find("no such folder"), std::string::npos);
  EXPECT_EQ(folder.zero("bench disk --dir /nowhere").status, 2);
  EXPECT_EQ(folder.zero("bench disk --mib 16777216").status, 2) << "16 TiB are not free";
  EXPECT_EQ(folder.zero("bench disk --engine punched_cards").status, 2);
  EXPECT_EQ(folder.zero("bench checkpoint --dir /nowhere").status, 2);
  EXPECT_NE(folder.zero("bench checkpoint --dir /nowhere").errors.find("no such folder"), std::string::npos);
  EXPECT_EQ(folder.zero("bench checkpoint --dir /dev/null").status, 2) << "no folder";
  EXPECT_EQ(folder.zero("bench checkpoint --mib 16777216").status, 2) << "48 TiB are not free";
  EXPECT_EQ(folder.zero("bench checkpoint --mib 7").status, 2);
  EXPECT_EQ(folder.zero("bench checkpoint --rounds 0").status, 2);
}

}  // namespace
}  // namespace zero
