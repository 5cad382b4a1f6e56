#include "app/config/rules/read_keys.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/optim/rule_registry.h"

#include "app/config/load.h"
#include "app/config/resolved.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(ReadKeys, AModelHasItsOwnKeys) {
  const auto refusal = [](const std::string& key, const std::string& value, const std::string& model = "") {
    std::vector<Setting> settings{{key, parse_value(value), value, "command line"}};
    if (!model.empty()) settings.push_back({"model.name", parse_value(model), model, "command line"});
    try {
      load_config({.overrides = settings, .check_files = false});
      return std::string();
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_TRUE(says(refusal("model.kv_heads", "2"), "model.name = \"gpt2\" has no such key"));
  EXPECT_TRUE(says(refusal("model.kv_heads", "2"), "use model.name llama"));
  EXPECT_TRUE(says(refusal("model.sizes", "[2, 2]"), "leave it out, or use model.name mlp"));
  EXPECT_TRUE(says(refusal("model.dropout", "0.1", "llama"), "use model.name gpt2, bert, rnn, lstm or gru"));
  EXPECT_TRUE(says(refusal("data.words", "100"),
                   "leave it out, or use data.kind tsv, csv or word_order (csv with data.text_column)"));
  EXPECT_TRUE(says(refusal("data.augment", "shift"), "use data.kind mnist or images"));
  EXPECT_TRUE(says(refusal("data.mean", "0.5"), "use data.kind mnist or images"));
  EXPECT_TRUE(says(refusal("data.std", "0.5"), "use data.kind mnist or images"));
  EXPECT_TRUE(says(refusal("data.size", "32"), "use data.kind images"));
  EXPECT_TRUE(says(refusal("data.classes", "10"), "use data.kind mnist, tsv or csv"));
  EXPECT_TRUE(says(refusal("data.text_column", "review"), "leave it out, or use data.kind tsv or csv"));
  EXPECT_TRUE(says(refusal("data.label_column", "mood"), "leave it out, or use data.kind tsv or csv"));
  EXPECT_TRUE(says(refusal("data.labels", "[\"a\", \"b\"]"), "leave it out, or use data.kind tsv or csv"));
  EXPECT_TRUE(says(refusal("data.columns", "[\"a\"]"), "leave it out, or use data.kind csv without data.text_column"));
  EXPECT_EQ(refusal("model.kv_heads", "2", "llama"), "");
  EXPECT_TRUE(says(refusal("model.kv_heads", "0"), "no such key")) << "the default is refused like other values";
}

LoadedConfig of_file_and_command_line(const std::string& toml, const std::string& key = "",
                                      const std::string& value = "") {
  std::vector<Setting> settings;
  if (!key.empty()) settings.push_back({key, parse_value(value), value, "command line", /*bare=*/true});
  return load_config({.text = toml, .text_name = "c.toml", .overrides = settings, .check_files = false});
}

TEST(ReadKeys, UpdateRulesHaveTheirOwnKeys) {
  EXPECT_EQ(message_of<ConfigError>([] { of_file_and_command_line("[optimizer]\nmomentum = 0.9\n"); }),
            "c.toml:2: optimizer.momentum = 0.9: optimizer.name = \"adamw\" has no such key\n"
            "  leave it out, or use optimizer.name sgd or muon; \"adamw\" has lr, betas, eps, weight_decay and group");
  const std::vector<std::pair<std::string, std::string>> others{{"optimizer.betas", "[0.5, 0.6]"},
                                                                {"optimizer.eps", "0.5"},
                                                                {"optimizer.momentum", "0.5"},
                                                                {"optimizer.trust_ratio", "[1.0, 2.0]"},
                                                                {"optimizer.clip", "0.5"}};
  for (const RuleRow& row : kRuleTable) {
    const std::string named = fmt::format("[optimizer]\nname = \"{}\"\n", row.name);
    for (const auto& [key, value] : others) {
      if (row.reads(key)) {
        EXPECT_NO_THROW(of_file_and_command_line(named, key, value)) << row.name << ": " << key;
      } else {
        EXPECT_CONTAINS(message_of<ConfigError>([&] { of_file_and_command_line(named, key, value); }),
                        fmt::format("{} = {}: optimizer.name = \"{}\" has no such key", key, value, row.name));
      }
    }
  }
}

// A file may set keys of a model or rule that the command line replaces.
TEST(ReadKeys, FileMayHaveOverruledKeys) {
  const auto lstm = of_file_and_command_line("[model]\nname = \"gpt2\"\nwidth = 64\n", "model.name", "lstm");
  EXPECT_EQ(lstm.config.model.name, "lstm");
  EXPECT_EQ(lstm.config.model.width, ModelOptions{}.width) << "64 belongs to the other model";
  const auto sgd = of_file_and_command_line("[optimizer]\nbetas = [0.8, 0.9]\nlr = 0.5\n", "optimizer.name", "sgd");
  EXPECT_EQ(sgd.config.optimizer.betas, OptimizerKeys{}.betas);
  EXPECT_EQ(sgd.config.optimizer.lr, 0.5) << "every rule has a rate";
  const auto muon = of_file_and_command_line("[optimizer]\nmomentum = 0.5\n", "optimizer.name", "muon");
  EXPECT_EQ(muon.config.optimizer.momentum, 0.5);
}

TEST(ReadKeys, OverruledRunFileLoadsAgain) {
  const std::string toml = "[optimizer]\nname = \"muon\"\nmomentum = 0.5\n";
  const Config run = of_file_and_command_line(toml, "optimizer.name", "lion").config;
  EXPECT_EQ(load_config({.text = resolved_toml(run), .text_name = "config.toml", .check_files = false}).config, run);
}

TEST(ReadKeys, SchedulesAndTypesHaveTheirKeys) {
  const auto refusal = [](const std::string& toml) {
    return message_of<ConfigError>([&] { of_file_and_command_line(toml); });
  };
  EXPECT_EQ(refusal("[schedule]\nname = \"linear\"\npower = 2.0\n"),
            "c.toml:3: schedule.power = 2.0: schedule.name = \"linear\" has no such key\n"
            "  leave it out, or use schedule.name polynomial; \"linear\" has warmup and min_lr");
  EXPECT_CONTAINS(refusal("[schedule]\nname = \"polynomial\"\ndecay = 5\n"), "use schedule.name wsd");
  EXPECT_EQ(refusal("[schedule]\nname = \"constant\"\nmin_lr = 1e-4\n"),
            "c.toml:3: schedule.min_lr = 0.0001: schedule.name = \"constant\" has no such key\n"
            "  leave it out, or use schedule.name linear, cosine, polynomial, inverse_sqrt, one_cycle or wsd; "
            "\"constant\" has warmup");
  EXPECT_EQ(refusal("[train]\nloss_scale = 128.0\n"),
            "c.toml:2: train.loss_scale = 128.0: train.dtype = \"fp32\" has no such key\n"
            "  leave it out, or use train.dtype fp16");
  EXPECT_NO_THROW(of_file_and_command_line("[schedule]\nname = \"polynomial\"\npower = 3.0\n"));
  EXPECT_NO_THROW(of_file_and_command_line("[schedule]\nname = \"wsd\"\ndecay = 5\n"));
  EXPECT_NO_THROW(of_file_and_command_line("[train]\ndtype = \"fp16\"\nloss_scale = 128.0\n"));
  const auto bf16 = of_file_and_command_line("[train]\ndtype = \"fp16\"\nloss_scale = 128.0\n", "train.dtype", "bf16");
  EXPECT_FALSE(bf16.config.engine.loss_scale) << "the file's scale belongs to the replaced type";
}

TEST(ReadKeys, OnlyRunFilesNameUnreadDefaults) {
  const std::string run = resolved_toml(of_file_and_command_line("[model]\nname = \"lstm\"\n").config);
  EXPECT_NO_THROW(of_file_and_command_line(run)) << "a run's file has every key";
  EXPECT_NO_THROW(of_file_and_command_line(run, "optimizer.name", "sgd"));
  EXPECT_NO_THROW(of_file_and_command_line(run, "model.name", "gpt2")) << "keys of lstm are taken away, others left";
  const std::string refused = "model.name = \"lstm\" has no such key";
  EXPECT_CONTAINS(message_of<ConfigError>([&] { of_file_and_command_line(run, "model.heads", "4"); }), refused);
  EXPECT_CONTAINS(message_of<ConfigError>([] { of_file_and_command_line("[model]\nname = \"lstm\"\nheads = 4\n"); }),
                  refused);
}

// In the file of a run.
TEST(ReadKeys, ConstantScheduleMayHaveLowestRate) {
  const auto refused = [](const std::string& toml, const std::string& key = "", const std::string& value = "") {
    return message_of<ConfigError>([&] { of_file_and_command_line(toml, key, value); });
  };
  const Config config = of_file_and_command_line("[optimizer]\nlr = 1e-5\n[schedule]\nname = \"constant\"\n").config;
  ASSERT_EQ(config.schedule.min_lr, 1e-6) << "derived from lr, not the default";
  const std::string run = resolved_toml(config);
  EXPECT_EQ(of_file_and_command_line(run).config, config);
  EXPECT_NO_THROW(of_file_and_command_line(run, "optimizer.lr", "1e-3"));
  EXPECT_NO_THROW(of_file_and_command_line(run, "schedule.name", "linear"));
  EXPECT_CONTAINS(refused(run, "schedule.min_lr", "1e-5"), "schedule.name = \"constant\" has no such key");
  const auto linear =
      of_file_and_command_line("[schedule]\nname = \"linear\"\nmin_lr = 1e-5\n", "schedule.name", "constant");
  EXPECT_EQ(linear.config.schedule.min_lr, LrSchedule{}.min_lr) << "1e-5 belongs to the replaced schedule";
}

TEST(ReadKeys, RunFileMayHaveUnreadKeys) {
  const ConfigRequest request{
      .text = "[optimizer]\nmomentum = 0.9\n", .text_name = "manifest.json", .check_files = false, .recorded = true};
  EXPECT_EQ(load_config(request).config.optimizer.name, "adamw");
}

}  // namespace
}  // namespace zero
