// Engine::save() and load() of a module: its buffers, the random generator, and a user's own loop.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/torch/attach_host.h"
#include "zero/torch/engine_control.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

torch::nn::Sequential make_net() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16), torch::nn::Dropout(0.3),
                               torch::nn::Linear(16, 1));
}

// Steps of a loop that draws its data from torch's generator.
std::vector<float> steps(torch::nn::Sequential& net, Engine& engine, int count) {
  std::vector<float> losses;
  for (int i = 0; i < count; ++i) {
    const auto x = torch::randn({8, 6});
    const auto loss = (net->forward(x) - x.sum(1, true)).pow(2).mean();
    loss.backward();
    engine.step();
    losses.push_back(loss.item<float>());
  }
  return losses;
}

void change_last_byte(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const int last = file.get();
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 0x55));
}

// Removes the generators and writes a valid manifest, as another program could do.
void forget_generators(const std::filesystem::path& checkpoint) {
  Manifest manifest = read_manifest(checkpoint);
  std::erase_if(manifest.files.front().extras, [](const SavedExtra& extra) { return extra.name == "rng/cpu"; });
  std::ofstream(checkpoint / kManifestName, std::ios::binary) << to_text(manifest);
}

TEST(SavedModule, UserLoopContinuesWithSameBits) {
  const TemporaryFolder folder;
  for (int stage = 0; stage <= 3; ++stage) {
    const auto path = folder / std::to_string(stage);
    std::vector<World> worlds = World::in_process(1, {});
    World& world = worlds.front();
    std::vector<float> expected, resumed;
    {
      auto net = make_net();
      auto engine = attach(*net, world, {.stage = stage, .optimizer = AdamW{.lr = 1e-2}, .clip = 1.0});
      steps(net, engine, 3);
      engine.save(path);
      expected = steps(net, engine, 3);
    }
    auto net = make_net();
    auto engine = attach(*net, world, {.stage = stage, .optimizer = AdamW{.lr = 1e-2}, .clip = 1.0});
    steps(net, engine, 1);  // any earlier training
    engine.load(path);
    EXPECT_EQ(steps(net, engine, 3), expected) << "stage " << stage;
  }
}

// The engine of the new module awaits a load.
TEST(SavedModule, AwaitingEngineContinuesWithSameBits) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  for (const int stage : {0, 3}) {
    const auto path = folder / std::to_string(stage);
    const AttachOptions options{.stage = stage, .optimizer = AdamW{.lr = 1e-2}};
    std::vector<float> expected;
    {
      auto net = make_net();
      auto engine = attach(*net, worlds.front(), options);
      steps(net, engine, 3);
      engine.save(path);
      expected = steps(net, engine, 3);
    }
    auto net = make_net();
    AttachOptions awaiting = options;
    awaiting.awaits_load = true;
    auto engine = attach(*net, worlds.front(), awaiting);
    engine.load(path);
    EXPECT_EQ(steps(net, engine, 3), expected) << "stage " << stage;
  }
}

// Until the load, every other call is refused.
TEST(SavedModule, AwaitingEngineRefusesEverythingElse) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  auto net = make_net();
  auto engine = attach(*net, worlds.front(), {.stage = 3, .awaits_load = true});
  const auto refused = [](auto body) {
    EXPECT_TRUE(says(message_of<ConfigError>(body), "engine has no complete values"));
  };
  refused([&] { net->forward(torch::ones({8, 6})); });
  refused([&] { engine.step(); });
  refused([&] { engine.save(folder / "c"); });
  refused([&] { engine.for_each_parameter([](const std::string&, const torch::Tensor&) {}); });
  refused([&] { const auto scope = engine.gathered(*net); });
  EXPECT_THROW(engine.load(folder / "c"), IoError);
  refused([&] { engine.step(); });
}

// After a load that fails midway, the engine needs a complete load.
TEST(SavedModule, BrokenLoadNeedsWholeOne) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  for (const int stage : {0, 3}) {
    const auto whole = folder / fmt::format("whole-{}", stage), damaged = folder / fmt::format("damaged-{}", stage);
    // A state is larger than the 4 MiB of one checksum. The load reads some blocks before it finds the damage.
    torch::nn::Sequential net(torch::nn::Linear(1200, 1000));
    auto engine = attach(*net, worlds.front(), {.stage = stage, .optimizer = AdamW{.lr = 1e-2}});
    const auto trained = [&] {
      const auto loss = net->forward(torch::ones({2, 1200})).pow(2).mean();
      loss.backward();
      engine.step();
      return loss.item<float>();
    };
    trained();
    engine.save(whole);
    engine.save(damaged);
    change_last_byte(damaged / "rank-00000.safetensors");
    const std::vector<float> expected{trained(), trained()};
    EXPECT_TRUE(says(message_of<IoError>([&] { engine.load(damaged); }), "differ from the saved bytes"));
    const auto refused = [](auto body) {
      EXPECT_TRUE(says(message_of<ConfigError>(body), "engine has no complete values"));
    };
    refused([&] { engine.step(); });
    refused([&] { engine.save(folder / "half"); });
    EXPECT_FALSE(std::filesystem::exists(folder / "half"));
    EXPECT_THROW(engine.load(folder / "missing"), IoError);
    refused([&] { engine.step(); });
    engine.load(whole);
    EXPECT_EQ((std::vector<float>{trained(), trained()}), expected) << "stage " << stage;
    EXPECT_NO_THROW(engine.save(whole));
  }
}

TEST(SavedModule, RefusedLoadLeavesEngineUnchanged) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  const AttachOptions options{.stage = 3, .optimizer = AdamW{.lr = 1e-2}};
  {
    torch::nn::Sequential other(torch::nn::Linear(3, 3));
    attach(*other, worlds.front(), options).save(folder / "other");
  }
  std::vector<float> expected;
  {
    auto net = make_net();
    auto engine = attach(*net, worlds.front(), options);
    steps(net, engine, 2);
    engine.save(folder / "lacking");
    forget_generators(folder / "lacking");
    expected = steps(net, engine, 3);
  }
  auto net = make_net();
  auto engine = attach(*net, worlds.front(), options);
  steps(net, engine, 2);
  EXPECT_THROW(engine.load(folder / "missing"), IoError);
  EXPECT_THROW(engine.load(folder / "other"), ConfigError);
  EXPECT_TRUE(says(message_of<IoError>([&] { engine.load(folder / "lacking"); }), "has no rng/cpu"));
  EXPECT_EQ(steps(net, engine, 3), expected);
  EXPECT_NO_THROW(engine.save(folder / "whole"));
}

TEST(SavedModule, BuffersComeBack) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  auto net = make_net();
  auto engine = attach(*net, worlds.front(), {.stage = 2});
  steps(net, engine, 2);
  engine.save(folder / "c");
  const auto& norm = net[1]->as<torch::nn::BatchNorm1d>();
  const auto mean = norm->running_mean.clone();
  const auto count = norm->num_batches_tracked.item<std::int64_t>();
  steps(net, engine, 2);
  EXPECT_FALSE(torch::equal(norm->running_mean, mean));
  engine.load(folder / "c");
  EXPECT_TRUE(torch::equal(norm->running_mean, mean));
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), count);
}

// The memory stays allocated until the machine runs short.
TEST(SavedModule, AsynchronousSaveReusesMemory) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  std::atomic<std::int64_t> free_bytes{std::int64_t{1} << 40};
  auto net = make_net();
  auto engine = attach(tensors_of(*net), worlds.front(), {.stage = 3},
                       {.seams = {.read_memory = [&] { return MemoryReading{.free_bytes = free_bytes}; }}});
  const auto held = [&] {
    steps(net, engine, 1);
    return engine.report().memory.host[MemoryTag::kStaging];
  };
  EXPECT_EQ(held(), 0);
  engine.control().begin_save(folder / "one", {})->wait();
  const std::int64_t kept = held();
  EXPECT_GT(kept, 0);
  engine.control().begin_save(folder / "another", {})->wait();
  EXPECT_EQ(held(), kept);
  free_bytes = 0;
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (held() != 0 && std::chrono::steady_clock::now() < patience) {  // the monitor looks ten times a second
  }
  EXPECT_EQ(held(), 0);
}

TEST(SavedModule, RefusesOtherBuffers) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  {
    torch::nn::Sequential plain(torch::nn::Linear(3, 3));
    attach(*plain, worlds.front(), {.stage = 1}).save(folder / "c");
  }
  torch::nn::Sequential other(torch::nn::Linear(3, 3));
  other->register_buffer("count", torch::zeros({2}));
  auto engine = attach(*other, worlds.front(), {.stage = 1});
  EXPECT_NE(message_of<ConfigError>([&] { engine.load(folder / "c"); }).find("has no buffer/count"), std::string::npos);
}

TEST(SavedModule, MissingGeneratorStateIsAnError) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  auto net = make_net();
  auto engine = attach(*net, worlds.front(), {.stage = 2});
  engine.save(folder / "c");
  forget_generators(folder / "c");
  EXPECT_TRUE(says(message_of<IoError>([&] { engine.load(folder / "c"); }), "rank-00000.safetensors has no rng/cpu"));
}

TEST(SavedModule, GatheredScopeIsRefused) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  auto net = make_net();
  auto engine = attach(*net, worlds.front(), {.stage = 3});
  const auto scope = engine.gathered(*net);
  EXPECT_THROW(engine.save(folder / "c"), ConfigError);
}

}  // namespace
}  // namespace zero
