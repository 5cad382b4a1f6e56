#include "app/config/rules/device_rules.h"

#include <functional>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/optim/rule_registry.h"

#include "app/config/load.h"
#include "tests/support/expect_says.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

using Change = std::function<void(Config&)>;

std::string refusal_on(const std::string& device, const Change& change) {
  LoadedConfig loaded;
  loaded.config.run.device = device;
  change(loaded.config);
  return message_of<ConfigError>([&] { check_device(loaded); });
}

bool works_on(const std::string& device, const Change& change) {
  LoadedConfig loaded;
  loaded.config.run.device = device;
  change(loaded.config);
  try {
    check_device(loaded);
  } catch (const ConfigError&) {
    return false;
  }
  return true;
}

TEST(DeviceRules, DeviceHasOneOfFourForms) {
  for (const char* name : {"auto", "cpu", "cuda", "cuda:0", "cuda:17"}) EXPECT_TRUE(works_on(name, [](Config&) {}));
  for (const char* name : {"gpu", "cuda:", "cuda:x", "CPU", ""})
    expect_says(refusal_on(name, [](Config&) {}),
                {"run.device", "there is no such device", "auto, cpu, cuda or cuda:1"});
}

TEST(DeviceRules, OnlyAGpuHasTf32) {
  const Change tf32 = [](Config& config) { config.train.tf32 = true; };
  expect_says(refusal_on("cpu", tf32), {"train.matmul", "use run.device cuda"});
  EXPECT_TRUE(works_on("cuda", tf32));
  EXPECT_TRUE(works_on("auto", tf32));
}

TEST(DeviceRules, NcclNeedsGpusWithoutCodecs) {
  const Change nccl = [](Config& config) { config.comm.transport = "nccl"; };
  expect_says(refusal_on("cpu", nccl),
              {"comm.transport = \"nccl\"", "it moves bytes between GPUs", "use run.device cuda"});
  for (const char* device : {"cuda", "cuda:1", "auto"}) EXPECT_TRUE(works_on(device, nccl));
  for (const bool gathers : {true, false}) {
    const Change coded = [gathers](Config& config) {
      config.comm.transport = "nccl";
      (gathers ? config.engine.wire.gather : config.engine.wire.reduce) = WireCodec::kInt8;
    };
    expect_says(refusal_on("cuda", coded), {gathers ? "comm.gather_wire = \"int8\"" : "comm.reduce_wire = \"int8\"",
                                            "the host encodes units for codecs"});
  }
}

// NCCL sums need comm.transport nccl.
TEST(DeviceRules, NcclSumsEqualBlocksOverNccl) {
  const auto summed = [](const std::string& transport, const std::string& shards) {
    return [=](Config& config) {
      config.engine.sums = RankSums::kLinked;
      config.engine.shards = cut_of(shards);
      config.comm.transport = transport;
    };
  };
  for (const char* device : {"cuda", "cuda:1", "auto"}) {
    EXPECT_TRUE(works_on(device, summed("nccl", "range")));
    expect_says(refusal_on(device, summed("auto", "range")),
                {"zero.reduce = \"nccl\"", "it moves between GPUs", "use run.device cuda with comm.transport nccl"});
    for (const char* shards : {"hash", "whole", "weighted"})
      expect_says(refusal_on(device, summed("nccl", shards)), {"zero.shards", "NCCL sums only equal blocks"});
  }
  expect_says(refusal_on("cpu", summed("gloo", "range")), {"zero.reduce = \"nccl\"", "run.device = \"cpu\""});
}

TEST(DeviceRules, CopiesSumGradientsOnTheHost) {
  const auto copies_over = [](const std::string& transport) {
    return [=](Config& config) {
      config.engine.group = 2;
      config.comm.transport = transport;
    };
  };
  for (const char* transport : {"auto", "gloo", "mpi"}) EXPECT_TRUE(works_on("cuda", copies_over(transport)));
  expect_says(refusal_on("cuda", copies_over("nccl")),
              {"zero.group = 2", "the host adds up the gradients", "comm.transport auto"});
}

TEST(DeviceRules, SecondaryPartsCrossTheHost) {
  const auto parts_over = [](const std::string& transport) {
    return [=](Config& config) {
      config.engine.secondary_group = 2;
      config.comm.transport = transport;
    };
  };
  for (const char* transport : {"auto", "gloo", "mpi"}) EXPECT_TRUE(works_on("cuda", parts_over(transport)));
  expect_says(refusal_on("cuda", parts_over("nccl")), {"zero.secondary_group = 2", "the host", "comm.transport auto"});
}

struct NotOnGpu {
  const char* key;
  Change change;
};

TEST(DeviceRules, RefusesUnsupportedGpuOptionsByName) {
  const NotOnGpu all[] = {
      {"sync.mode = \"local\"", [](Config& config) { config.local.on = true; }},
      {"sync.servers = 1", [](Config& config) { config.engine.sync.servers = 1; }},
      {"train.leaves = 4", [](Config& config) { config.train.leaves = 4; }},
      {"zero.link_bandwidth", [](Config& config) { config.engine.offload.link_bytes_per_second = 1e9; }},
  };
  for (const NotOnGpu& what : all) {
    expect_says(refusal_on("cuda:1", what.change), {what.key, "not work on a GPU (run.device = \"cuda:1\")"});
    EXPECT_TRUE(works_on("cpu", what.change)) << what.key;
    EXPECT_TRUE(works_on("auto", what.change)) << what.key << ": it is not known yet whether that is a GPU";
  }
}

// At every stage, with states on any tier.
TEST(DeviceRules, EveryOptimizerWorksOnAGpu) {
  for (const RuleRow& row : kRuleTable)
    EXPECT_TRUE(works_on("cuda", [&](Config& config) { config.optimizer.name = row.name; })) << row.name;
  for (int stage = 0; stage < 4; ++stage)
    EXPECT_TRUE(works_on("cuda", [stage](Config& config) {
      config.engine.offload.fractions.optimizer.host = 1;
      config.engine.stage = stage;
    })) << stage;
}

TEST(DeviceRules, ActivationsMayUseHostAndDisk) {
  for (const Tier tier : {Tier::kHost, Tier::kDisk})
    EXPECT_TRUE(works_on("cuda", [tier](Config& config) { config.model.activation_offload = {.tier = tier}; }))
        << name_of(tier);
}

TEST(DeviceRules, BelongToEveryConfiguration) {
  const std::string message = message_of<ConfigError>([] {
    load_config({.text = "[run]\ndevice = \"cuda\"\n[zero]\nlink_bandwidth = \"1GiB\"\n", .text_name = "mine.toml"});
  });
  expect_says(message, {"mine.toml:4: zero.link_bandwidth"});
}

}  // namespace
}  // namespace zero
