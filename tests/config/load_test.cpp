#include "app/config/load.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/config/command_line.h"
#include "app/config/resolved.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

std::vector<Setting> overrides(std::vector<std::string> arguments) {
  return split_command_line(arguments).overrides;
}

LoadedConfig load_text(const std::string& text, std::vector<std::string> arguments = {},
                       std::vector<std::string> environment = {}) {
  const TemporaryFolder scratch;
  return load_config({.file = scratch.write("config.toml", text),
                      .overrides = overrides(std::move(arguments)),
                      .environment = std::move(environment),
                      .check_files = false});
}

TEST(Load, WithoutAnythingGivesTheDefaults) {
  EXPECT_EQ(load_config({.file = {}, .overrides = {}, .environment = {}, .check_files = false}).config, Config{});
}

// The file takes precedence over the default.
TEST(Load, CommandLineBeatsEnvironmentBeatsFile) {
  const std::string file = "[train]\nsteps = 1001\nbatch = 2\nseed = 3\n";
  const auto loaded = load_text(file, {"--train.steps", "1003"}, {"ZERO_TRAIN_STEPS=1002", "ZERO_TRAIN_BATCH=20"});
  EXPECT_EQ(loaded.config.train.steps, 1003);
  EXPECT_EQ(loaded.config.train.batch, 20);
  EXPECT_EQ(loaded.config.train.seed, 3);
  EXPECT_EQ(loaded.config.train.accumulate, 1);
  EXPECT_EQ(loaded.origins.at("train.steps"), "command line");
  EXPECT_EQ(loaded.origins.at("train.batch"), "ZERO_TRAIN_BATCH");
  EXPECT_TRUE(loaded.origins.at("train.seed").ends_with("config.toml:4"));
  EXPECT_FALSE(loaded.origins.contains("train.accumulate"));
}

// Older checkpoints say "auto", which meant "last" at stages 0 and 1. A run that continues from one reports a changed
// value.
TEST(Load, AutoReduceBecomesEach) {
  EXPECT_EQ(load_text("[train]\nreduce = \"auto\"\n").config.engine.reduce, Reduce::kEach);
  EXPECT_EQ(load_text("").config.engine.reduce, Reduce::kEach);
  EXPECT_EQ(load_text("[train]\nreduce = \"last\"\n").config.engine.reduce, Reduce::kLast);
}

// config.toml of a run then names the files, and ranks that found different files do not start.
TEST(Load, ExpandsAPatternToFiles) {
  const TemporaryFolder folder;
  const std::string second = folder.write("b.bin", "x").string(), first = folder.write("a.bin", "x").string();
  const auto loaded = load_text("[data]\npath = \"" + (folder / "*.bin").string() + "\"\n");
  EXPECT_EQ(loaded.config.data.path, DataFiles({first, second}));
}

TEST(Load, EmptySectionPassesUnknownFails) {
  EXPECT_EQ(load_text("[model]\n").config, Config{});
  EXPECT_NE(message_of<ConfigError>([] { load_text("[modle]\n"); }).find("did you mean 'model'?"), std::string::npos);
}

TEST(Load, AnUnknownKeyNamesItsLine) {
  const std::string message = message_of<ConfigError>([] { load_text("[train]\nsteps = 5\nbathc = 2\n"); });
  EXPECT_NE(message.find("config.toml:3: train.bathc = 2: unknown key\n  did you mean 'train.batch'?"),
            std::string::npos)
      << message;
}

TEST(Load, RefusesAMisspeltVariable) {
  EXPECT_NE(
      message_of<ConfigError>([] { load_text("", {}, {"ZERO_TRAIN_STEP=5"}); }).find("did you mean ZERO_TRAIN_STEPS?"),
      std::string::npos);
}

TEST(Load, VariablesOfOthersAreLeftAlone) {
  EXPECT_EQ(
      load_text("", {}, {"ZERO_LOG_LEVEL=info", "ZERO_RUN_ID=5f", "ZERO_TORCH=/opt/torch", "PATH=/bin", "ZERO_ODD"})
          .config,
      Config{});
}

TEST(Load, DefaultsYieldToWhatWasGiven) {
  const auto loaded = load_text("", {"--train.steps", "5", "--optimizer.lr", "1e-5"});
  EXPECT_EQ(loaded.config.schedule.warmup, 5);
  EXPECT_EQ(loaded.config.schedule.min_lr, 1e-6);
}

TEST(Load, FewerStepsShortenTheWarmup) {
  const auto usual = load_text("", {"--train.steps", "5"});
  EXPECT_EQ(usual.config.schedule.warmup, 5);
  EXPECT_EQ(usual.notes,
            std::vector<std::string>{"schedule.warmup is 5 instead of 100 (its default), because the run has 5 steps"});
  const auto of_file = load_text("[train]\nsteps = 50\n[schedule]\nwarmup = 5\n", {"--train.steps", "2"});
  EXPECT_EQ(of_file.config.schedule.warmup, 2);
  ASSERT_EQ(of_file.notes.size(), 1U);
  EXPECT_CONTAINS(of_file.notes[0], "schedule.warmup is 2 instead of 5 (");
  EXPECT_CONTAINS(of_file.notes[0], ":4), because the run has 2 steps");
  const auto falls =
      load_text("[train]\nsteps = 50\n[schedule]\nname = \"wsd\"\nwarmup = 5\ndecay = 30\n", {"--train.steps", "20"});
  EXPECT_EQ(falls.config.schedule.warmup, 5);
  EXPECT_EQ(falls.config.schedule.decay, 15);
  EXPECT_EQ(falls.notes.size(), 1U);
  EXPECT_TRUE(load_text("", {"--train.steps", "500"}).notes.empty());
}

TEST(Load, RefusesLongWarmupOfOneSource) {
  EXPECT_CONTAINS(message_of<ConfigError>([] { load_text("[train]\nsteps = 2\n[schedule]\nwarmup = 5\n"); }),
                  "more than train.steps = 2");
  EXPECT_CONTAINS(message_of<ConfigError>([] {
                    load_text("", {"--train.steps", "2", "--schedule.warmup", "5"});
                  }),
                  "more than train.steps = 2");
}

TEST(Load, LowestRateDefaultsToATenth) {
  EXPECT_EQ(load_text("").config.schedule.min_lr, LrSchedule{}.min_lr)
      << "the help names this value for the default rate";
  EXPECT_EQ(load_text("", {"--optimizer.lr", "0.5"}).config.schedule.min_lr, 0.05);
  EXPECT_EQ(load_text("", {"--optimizer.lr", "3e-4"}).config.schedule.min_lr, 3e-5) << "as a person writes it";
  EXPECT_EQ(load_text("[optimizer]\nname = \"adafactor\"\n").config.schedule.min_lr, 0.001)
      << "a tenth of Adafactor's default rate";
  EXPECT_EQ(load_text("[schedule]\nmin_lr = 1e-4\n", {"--optimizer.lr", "0.5"}).config.schedule.min_lr, 1e-4);
  EXPECT_EQ(load_text("", {"--optimizer.lr", "0"}).config.schedule.min_lr, 0);
}

// Muon also has its usual momentum.
TEST(Load, MuonUsesNesterovByDefault) {
  const auto muon = load_text("[optimizer]\nname = \"muon\"\n").config.optimizer;
  EXPECT_EQ(muon.momentum, 0.95);
  EXPECT_TRUE(muon.nesterov);
  const auto told = load_text("[optimizer]\nname = \"muon\"\nmomentum = 0.9\nnesterov = false\n").config.optimizer;
  EXPECT_EQ(told.momentum, 0.9);
  EXPECT_FALSE(told.nesterov);
  EXPECT_EQ(load_text("[optimizer]\nname = \"sgd\"\n").config.optimizer.momentum, 0);
}

TEST(Load, AdafactorHasItsUsualRate) {
  EXPECT_EQ(load_text("[optimizer]\nname = \"adafactor\"\n").config.optimizer.lr, 0.01);
  EXPECT_EQ(load_text("[optimizer]\nname = \"adafactor\"\nlr = 0.1\n").config.optimizer.lr, 0.1);
}

// Rules without decay in PyTorch have none by default here.
TEST(Load, TorchDefaultsDecideOnDecay) {
  const auto decay = [](const std::string& rule, const std::string& more = "") {
    return load_text("[optimizer]\nname = \"" + rule + "\"\n" + more).config.optimizer.weight_decay;
  };
  for (const std::string rule : {"sgd", "adam", "adafactor"}) {
    EXPECT_EQ(decay(rule), 0) << rule;
    EXPECT_EQ(decay(rule, "weight_decay = 0.1\n"), 0.1) << rule;
  }
  for (const std::string rule : {"adamw", "lion", "lamb", "adamw8bit", "muon"})
    EXPECT_EQ(decay(rule), OptimizerKeys{}.weight_decay) << rule;
}

// Also the lowest learning rate.
TEST(Load, RunFileKeepsDecayAndRate) {
  Config run = load_text("[optimizer]\nname = \"sgd\"\nlr = 0.5\n").config;
  run.optimizer.weight_decay = 0.1;  // as earlier versions wrote them
  run.schedule.min_lr = 1e-4;
  EXPECT_EQ(load_text(resolved_toml(run)).config, run);
}

// Steps and epochs are two forms of the same length.
TEST(Load, StrongerSourceSetsTheLength) {
  const std::string steps = "[train]\nsteps = 500\n", epochs = "[train]\nepochs = 7\n";
  EXPECT_EQ(load_text(steps, {"--train.epochs", "3"}).config.train.epochs, 3);
  EXPECT_EQ(load_text(epochs, {"--train.steps", "9"}).config.train.epochs, 0);
  EXPECT_EQ(load_text(epochs, {"--train.steps", "9"}).config.train.steps, 9);
  EXPECT_EQ(load_text(epochs, {}, {"ZERO_TRAIN_STEPS=9"}).config.train.epochs, 0);
  const std::string both = message_of<ConfigError>([&] { load_text("[train]\nsteps = 5\nepochs = 7\n"); });
  EXPECT_NE(both.find("config.toml:3: train.epochs = 7: train.steps = 5 is also given"), std::string::npos) << both;
}

}  // namespace
}  // namespace zero
