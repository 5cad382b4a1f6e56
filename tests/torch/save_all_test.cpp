// Several engines in one checkpoint. All engines are from the same moment, for any world and stage, or the call is
// refused and changes nothing.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::Values;

// Two models with different parameters, each with an engine.
class TwoEngines {
 public:
  TwoEngines(World& world, const AttachOptions& options)
      : rank_(world.rank()),
        small_(torch::nn::Linear(3, 5), torch::nn::Tanh(), torch::nn::Linear(5, 1)),
        large_(torch::nn::Linear(3, 9), torch::nn::Tanh(), torch::nn::Linear(9, 7), torch::nn::Linear(7, 1)) {
    first.emplace(attach(*small_, world, options));
    second.emplace(attach(*large_, world, options));
  }
  std::vector<Engine*> engines() { return {&*first, &*second}; }
  void step(std::int64_t number) {
    const auto x = torch::sin(torch::arange(12, torch::kFloat) * (1.0 + 0.1 * number) + rank_).reshape({4, 3});
    small_->forward(x).square().mean().backward();
    first->step(1e-2);
    large_->forward(x).square().mean().backward();
    second->step(1e-2);
  }
  // Weights and second moments of both models.
  Values states() {
    Values values;
    for (Engine* engine : engines())
      for (const ParamSpec& spec : engine->parameters())
        for (const char* state : {"parameter", "exp_avg_sq"}) values.push_back(engine->full_state(spec.name, state));
    return values;
  }

  std::optional<Engine> first, second;

 private:
  int rank_;
  torch::nn::Sequential small_, large_;
};

void overwrite_byte(const std::filesystem::path& file, std::int64_t place) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(place);
  stream.put('!');
}

TEST(SaveAll, LoadsIntoOtherWorldsAndStages) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "runs/checkpoint";
  Values saved;
  tests::on_every_rank(2, [&](World& ranks) {
    TwoEngines two(ranks, {.stage = 3});
    for (int number = 0; number < 3; ++number) two.step(number);
    save_all(path, two.engines());
    Values states = two.states();
    if (ranks.rank() == 0) saved = std::move(states);
  });
  for (const int world : {1, 2, 3}) {
    for (const AttachOptions& options : tests::all_stages({})) {
      tests::on_every_rank(world, [&](World& ranks) {
        TwoEngines two(ranks, options);
        const std::vector<LoadedCheckpoint> loaded = load_all(path, two.engines());
        ASSERT_EQ(loaded.size(), 2);
        EXPECT_EQ(loaded[0].manifest.steps, 3);
        EXPECT_EQ(loaded[1].manifest.steps, 3);
        EXPECT_TRUE(tests::same_bits(two.states(), saved)) << world << ", " << tests::placement_of(options);
        two.step(3);
      });
    }
  }
}

TEST(SaveAll, EachPartIsACheckpoint) {
  const TemporaryFolder folder;
  tests::on_every_rank(2, [&](World& ranks) {
    TwoEngines two(ranks, {.stage = 2});
    two.step(0);
    save_all(folder.path() / "all", two.engines());
    const Values saved = two.states();
    two.step(1);
    two.first->load(folder.path() / "all/engine-0");
    two.second->load(folder.path() / "all/engine-1");
    EXPECT_TRUE(tests::same_bits(two.states(), saved));
  });
}

// A process that saves repeatedly is killed at any time. Both engines then have the states of the same save.
TEST(SaveAll, KillLeavesOneMoment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder own;
  ::setenv("ZERO_TEST_SAVE_ALL_FOLDER", own.path().c_str(), /*overwrite=*/0);
  const std::filesystem::path path = std::filesystem::path(std::getenv("ZERO_TEST_SAVE_ALL_FOLDER")) / "checkpoint";
  const auto save_until_killed = [&](int milliseconds) {
    tests::on_every_rank(2, [&](World& ranks) {
      TwoEngines two(ranks, {.stage = 3});
      std::thread killer;
      for (int number = 0; number < 100000; ++number) {
        two.step(number);
        save_all(path, two.engines());
        if (number > 0 || ranks.rank() > 0) continue;
        killer = std::thread([milliseconds] {
          std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
          ::raise(SIGKILL);
        });
      }
    });
  };
  for (const int milliseconds : {1, 3, 8, 17}) {
    EXPECT_EXIT(save_until_killed(milliseconds), testing::KilledBySignal(SIGKILL), "");
    tests::on_every_rank(1, [&](World& ranks) {
      TwoEngines two(ranks, {.stage = 1});
      const std::vector<LoadedCheckpoint> loaded = load_all(path, two.engines());
      EXPECT_GE(loaded[0].manifest.steps, 1);
      EXPECT_EQ(loaded[0].manifest.steps, loaded[1].manifest.steps);
    });
  }
  ::unsetenv("ZERO_TEST_SAVE_ALL_FOLDER");
}

TEST(SaveAll, RefusesOtherSets) {
  const TemporaryFolder folder;
  std::vector<World> others = World::in_process(1);
  tests::on_every_rank(1, [&](World& ranks) {
    const std::filesystem::path path = folder.path() / "checkpoint";
    TwoEngines two(ranks, {.stage = 3}), elsewhere(others.front(), {.stage = 3});
    const auto refused = [&](const std::vector<Engine*>& engines, std::string_view reason) {
      EXPECT_TRUE(says(message_of<ConfigError>([&] { save_all(path, engines); }), reason));
      EXPECT_TRUE(says(message_of<ConfigError>([&] { load_all(path, engines); }), reason));
      EXPECT_FALSE(std::filesystem::exists(path));
    };
    refused({}, "no engine");
    refused({&*two.first, nullptr}, "engine 1: it is null");
    refused({&*two.first, &*two.second, &*two.first}, "engine 2: it was given twice");
    refused({&*two.first, &*elsewhere.second}, "engine 1: it was attached in another world than engine 0");
  });
}

TEST(SaveAll, RefusesPendingGradientsBeforeWriting) {
  const TemporaryFolder folder;
  tests::on_every_rank(2, [&](World& ranks) {
    torch::nn::Linear one(2, 1), other(2, 1);
    Engine first = attach(*one, ranks, {.stage = 3}), second = attach(*other, ranks, {.stage = 3});
    other->forward(torch::ones({1, 2})).sum().backward();
    EXPECT_TRUE(says(message_of<ConfigError>([&] {
                       save_all(folder.path() / "x", {&first, &second});
                     }),
                     "zero_grad()"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "x.tmp"));
    second.discard_gradients();
    save_all(folder.path() / "x", {&first, &second});
  });
}

TEST(SaveAll, OtherEnginesAreNotLoaded) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  tests::on_every_rank(2, [&](World& ranks) {
    TwoEngines two(ranks, {.stage = 3});
    two.step(0);
    save_all(path, two.engines());
    two.step(1);
    const Values before = two.states();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { load_all(path, {&*two.first}); }),
                     "the checkpoint has 2 engines, and 1 were given"));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { load_all(path, {&*two.second, &*two.first}); }), "shape"));
    torch::nn::Linear named(9, 7);
    Engine other = attach(*named, ranks, {.stage = 3});
    EXPECT_TRUE(says(message_of<ConfigError>([&] { load_all(path, {&*two.first, &other}); }), "has no weight"));
    EXPECT_TRUE(tests::same_bits(two.states(), before)) << "a refused load changes nothing";
  });
}

TEST(SaveAll, PartOfAnotherSaveIsRefused) {
  const TemporaryFolder folder;
  const auto at = [&](const char* name) { return folder.path() / name; };
  tests::on_every_rank(2, [&](World& ranks) {
    TwoEngines two(ranks, {.stage = 3});
    for (const char* name : {"old", "new"}) {
      two.step(0);
      save_all(at(name), two.engines());
    }
    const Values before = two.states();
    if (ranks.rank() == 0) {
      std::filesystem::remove_all(at("new") / "engine-1");
      std::filesystem::rename(at("old") / "engine-1", at("new") / "engine-1");
    }
    ranks.communicator().barrier({.control = true}).wait();
    EXPECT_TRUE(says(message_of<IoError>([&] { load_all(at("new"), two.engines()); }), "engine-1"));
    EXPECT_THROW(load_all(at("old"), two.engines()), IoError) << "engine-1 is not there";
    EXPECT_TRUE(tests::same_bits(two.states(), before));
  });
}

TEST(SaveAll, DamagedPartLoadsNoEngine) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  tests::on_every_rank(1, [&](World& ranks) {
    TwoEngines two(ranks, {.stage = 3});
    two.step(0);
    save_all(folder.path() / "good", two.engines());
    save_all(path, two.engines());
    const std::filesystem::path file = path / "engine-1/rank-00000.safetensors";
    overwrite_byte(file, static_cast<std::int64_t>(std::filesystem::file_size(file)) / 2);
    EXPECT_THROW(load_all(path, two.engines()), IoError);
    for (Engine* engine : two.engines())
      EXPECT_TRUE(says(message_of<ConfigError>([&] { engine->step(); }), "engine has no complete values"));
    load_all(folder.path() / "good", two.engines());
    two.step(1);
    overwrite_byte(path / "engines.json", 12);
    EXPECT_THROW(load_all(path, two.engines()), IoError);
    two.step(2);
  });
}

TEST(SaveAll, ReplacesItsOwnKindOnly) {
  const TemporaryFolder folder;
  tests::on_every_rank(2, [&](World& ranks) {
    TwoEngines two(ranks, {.stage = 3});
    two.first->save(folder.path() / "single");
    save_all(folder.path() / "all", two.engines());
    EXPECT_TRUE(says(message_of<IoError>([&] { save_all(folder.path() / "single", two.engines()); }),
                     "it is not a checkpoint"));
    EXPECT_TRUE(says(message_of<IoError>([&] { two.first->save(folder.path() / "all"); }), "it is not a checkpoint"));
    two.step(0);
    save_all(folder.path() / "all", two.engines());
    EXPECT_EQ(load_all(folder.path() / "all", two.engines())[1].manifest.steps, 1);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "all.tmp"));
  });
}

}  // namespace
}  // namespace zero
