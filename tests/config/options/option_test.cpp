#include "app/config/options/option.h"

#include <set>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

std::string refusal(std::string_view name, const std::string& text) {
  Config config;
  const Setting setting{std::string(name), parse_value(text), text, "c.toml:7", /*bare=*/false};
  const Config before = config;
  const std::string message = message_of<ConfigError>([&] { set_option(config, *find_option(name), setting); });
  EXPECT_EQ(config, before) << "a refused value must leave no trace: " << name;
  return message;
}

Config with(std::string_view name, const std::string& text, bool bare = true) {
  Config config;
  set_option(config, *find_option(name), {std::string(name), parse_value(text), text, "command line", bare});
  return config;
}

TEST(OptionTable, NamesAreUniqueInKnownSections) {
  std::set<std::string_view> names;
  const std::set<std::string_view> known(sections().begin(), sections().end());
  for (const auto& option : options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_TRUE(known.contains(option.section())) << option.name;
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_FALSE(allowed(option).empty()) << option.name;
  }
}

TEST(OptionTable, HelpIsOneShortPhrase) {
  for (const auto& option : options()) {
    EXPECT_LE(option.help.size(), 120) << option.name;
    EXPECT_FALSE(option.help.ends_with('.')) << option.name << ": the manual page ends the sentence";
  }
}

TEST(OptionTable, DefaultsAreAllowedAndReadBack) {
  for (const auto& option : options()) {
    if (option.name == "data.path" || option.name == "model.init") continue;  // empty: not set
    Config config;
    const Value value = get_option(config, option);
    set_option(config, option, {std::string(option.name), value, to_toml(value), "", false});
    EXPECT_EQ(config, Config{}) << option.name;
  }
}

TEST(OptionTable, CoversEveryKeyOfTheContract) {
  for (const char* name : {"model.name",
                           "model.layers",
                           "model.width",
                           "model.heads",
                           "model.hidden",
                           "model.context",
                           "model.vocab",
                           "model.dropout",
                           "model.sizes",
                           "model.init",
                           "data.kind",
                           "data.path",
                           "data.validation",
                           "data.context",
                           "data.order",
                           "train.steps",
                           "train.batch",
                           "train.accumulate",
                           "train.reduce",
                           "train.global_batch",
                           "train.dtype",
                           "train.reduce_dtype",
                           "train.loss_scale",
                           "train.clip",
                           "train.checkpoint_activations",
                           "train.offload_activations",
                           "train.seed",
                           "train.eval_every",
                           "train.eval_batches",
                           "train.log_every",
                           "train.sample",
                           "optimizer.name",
                           "optimizer.lr",
                           "optimizer.betas",
                           "optimizer.eps",
                           "optimizer.weight_decay",
                           "optimizer.momentum",
                           "optimizer.nesterov",
                           "schedule.name",
                           "schedule.warmup",
                           "schedule.min_lr",
                           "schedule.power",
                           "schedule.decay",
                           "zero.stage",
                           "zero.device_memory",
                           "zero.host_memory",
                           "zero.disk",
                           "zero.disk_memory",
                           "zero.link_bandwidth",
                           "zero.placement",
                           "zero.parameter",
                           "zero.gradient",
                           "zero.optimizer",
                           "comm.transport",
                           "comm.timeout",
                           "run.dir",
                           "run.timeline",
                           "run.timeline_steps",
                           "run.tensorboard",
                           "run.threads"}) {
    EXPECT_NE(find_option(name), nullptr) << name;
  }
}

TEST(Option, EnvironmentNameIsUpperCase) {
  EXPECT_EQ(environment_name(*find_option("train.eval_every")), "ZERO_TRAIN_EVAL_EVERY");
}

struct Bad {
  const char* name;
  const char* text;
  const char* says;
};

class BadValue : public testing::TestWithParam<Bad> {};

TEST_P(BadValue, NamesPlaceValueAndAllowed) {
  const auto& [name, text, says] = GetParam();
  const std::string message = refusal(name, text);
  EXPECT_TRUE(message.starts_with(std::string("c.toml:7: ") + name + " = ")) << message;
  EXPECT_NE(message.find(says), std::string::npos) << message;
  EXPECT_LT(std::count(message.begin(), message.end(), '\n'), 3) << "one screen: " << message;
}

INSTANTIATE_TEST_SUITE_P(
    Values, BadValue,
    testing::Values(
        Bad{"optimizer.beta2_decay", "0.5", "a number, 0 or less"}, Bad{"optimizer.eps1", "0.0", "above 0"},
        Bad{"zero.stage", "4", "allowed: 0, 1, 2, 3"}, Bad{"zero.stage", "-1", "allowed: 0, 1, 2, 3"},
        Bad{"zero.stage", "3.0", "write 3; allowed: 0, 1, 2, 3"}, Bad{"zero.stage", "\"3\"", "a string does not fit"},
        Bad{"train.steps", "0", "an integer from 1 to 2147483647"},
        Bad{"train.steps", "true", "true or false does not fit"}, Bad{"train.steps", "[5]", "an array does not fit"},
        Bad{"train.steps", "9223372036854775807", "out of range"},
        Bad{"train.steps", "1e30", "out of range\n  allowed: an integer from 1 to 2147483647"},
        Bad{"train.steps", "1e3", "a float instead of an integer\n  write 1000; allowed: an integer"},
        Bad{"train.steps", "2.5", "not a whole number\n  allowed: an integer"},
        Bad{"train.steps", "inf", "not a finite number"}, Bad{"model.layers", "10001", "an integer from 1 to 10000"},
        Bad{"checkpoint.every", "0.5", "not a whole number\n  allowed: a number of steps, 0 for never, or a duration"},
        Bad{"train.clip", "nan", "not a finite number"}, Bad{"train.clip", "-0.1", "a number, 0 or more"},
        Bad{"optimizer.lr", "inf", "not a finite number"}, Bad{"optimizer.lr", "-inf", "not a finite number"},
        Bad{"optimizer.eps", "0.0", "a number, above 0"}, Bad{"optimizer.betas", "[0.9]", "1 number instead of two"},
        Bad{"optimizer.betas", "[0.9, 1.0]", "from 0 to 1 (exclusive)"},
        Bad{"optimizer.betas", "[0.9, \"x\"]", "a string does not fit"}, Bad{"optimizer.betas", "0.9", "two numbers"},
        Bad{"model.dropout", "1", "from 0 to 1 (exclusive)"},
        Bad{"model.sizes", "[784]", "1 number instead of two or more"},
        Bad{"model.sizes", "784", "an integer instead of a list\n  allowed: two or more integers, such as [784,"},
        Bad{"model.sizes", "[784, 0]", "out of range"}, Bad{"train.dtype", "\"fp8\"", "allowed: fp32, bf16, fp16"},
        Bad{"train.dtype", "\"bf61\"", "did you mean 'bf16'?"}, Bad{"train.dtype", "16", "an integer does not fit"},
        Bad{"train.loss_scale", "\"dynmaic\"", "\"dynamic\", or a number above 0"},
        Bad{"train.loss_scale", "0", "out of range"}, Bad{"train.loss_scale", "-1.5", "out of range"},
        Bad{"train.loss_scale", "true", "true or false does not fit"},
        Bad{"train.reduce_dtype", "\"bf16\"", "allowed: same, fp32"},
        Bad{"comm.transport", "\"shared_memroy\"", "did you mean 'shared_memory'?"},
        Bad{"comm.timeout", "\"60\"", "\"60s\" or \"500ms\""}, Bad{"comm.timeout", "\"0s\"", "out of range"},
        Bad{"comm.timeout", "60", "an integer does not fit"}, Bad{"zero.device_memory", "\"lots\"", "64MiB"},
        Bad{"zero.device_memory", "\"0B\"", "no memory at all"},
        Bad{"data.validation", "1.0", "a path, several, or a number"}, Bad{"data.validation", "\"\"", "an empty path"},
        Bad{"run.dir", "1979-05-27", "a date or time does not fit"},
        Bad{"train.checkpoint_activations", "1", "an integer does not fit here"},
        Bad{"train.checkpoint_activations", "\"yes\"", "allowed: true or false"},
        Bad{"train.offload_activations", "\"dsik\"", "did you mean 'disk'?"},
        Bad{"train.offload_activations", "true", "true or false does not fit"}, Bad{"train.seed", "-1", "out of range"},
        Bad{"train.seed", "9007199254740993", "out of range"}));

TEST(Option, WholeNumbersAreNumbers) {
  EXPECT_EQ(with("optimizer.lr", "1").optimizer.lr, 1.0);
}

// The key expects a string.
TEST(Option, NumberLikeWordsStayStrings) {
  EXPECT_EQ(with("run.dir", "2024").run.dir, "2024");
  EXPECT_EQ(with("run.dir", "007").run.dir, "007");
  EXPECT_NE(message_of<ConfigError>([] { with("run.dir", "2024", /*bare=*/false); }), "");
}

TEST(Option, OverlongIntegerIsOutOfRange) {
  for (const char* text : {"1000000000000000000000000", "-1000000000000000000000000"})
    EXPECT_TRUE(says(message_of<ConfigError>([&] { with("train.steps", text); }), "out of range")) << text;
}

TEST(Option, SwitchesAreTrueOrFalse) {
  EXPECT_TRUE(with("train.checkpoint_activations", "true").model.checkpoint_activations);
  EXPECT_FALSE(with("train.checkpoint_activations", "false").model.checkpoint_activations);
  for (const char* text : {"yes", "True", "1", ""})
    EXPECT_NE(message_of<ConfigError>([&] { with("train.checkpoint_activations", text); }), "") << text;
}

TEST(Option, MemoryBudgetsAreWordsOrSizes) {
  EXPECT_EQ(with("zero.device_memory", "min").engine.device_memory.kind, MemoryBudget::Kind::kMin);
  EXPECT_EQ(with("zero.device_memory", "64MiB").engine.device_memory,
            (MemoryBudget{MemoryBudget::Kind::kBytes, 64 << 20}));
  const std::string refused = refusal("zero.disk_memory", "\"min\"");
  EXPECT_TRUE(says(refused, "this budget has no least"));
  EXPECT_TRUE(says(refused, "64GiB")) << "and what would work";
}

TEST(Option, DataMayLieInSeveralFiles) {
  EXPECT_EQ(with("data.path", "a.bin").data.path, DataFiles("a.bin"));
  EXPECT_EQ(with("data.path", R"(["a.bin", "b.bin"])").data.path, DataFiles({"a.bin", "b.bin"}));
  EXPECT_EQ(with("data.validation", R"(["a.bin", "b.bin"])").data.validation,
            Validation(DataFiles({"a.bin", "b.bin"})));
  EXPECT_TRUE(says(refusal("data.path", R"(["a.bin", ""])"), "an empty path"));
  EXPECT_TRUE(says(refusal("data.path", "[1, 2]"), "an integer does not fit here"));
  EXPECT_TRUE(says(refusal("data.validation", "[]"), "an empty path"));
}

TEST(Option, ValidationIsFractionOrPath) {
  EXPECT_EQ(with("data.validation", "0").data.validation, Validation(0.0));
  EXPECT_EQ(with("data.validation", "val.bin").data.validation, Validation(DataFiles("val.bin")));
}

TEST(Option, LossScaleIsDynamicOrNumber) {
  EXPECT_EQ(with("train.loss_scale", "dynamic").engine.loss_scale.has_value(), false);
  EXPECT_EQ(with("train.loss_scale", "1024").engine.loss_scale->value, 1024);
  EXPECT_EQ(with("train.loss_scale", "0.5").engine.loss_scale->value, 0.5);
}

TEST(Option, IntervalIsStepsOrTime) {
  EXPECT_EQ(with("checkpoint.every", "500").checkpoint.every_steps, 500);
  EXPECT_EQ(with("checkpoint.every", "500").checkpoint.every_seconds, 0);
  EXPECT_FALSE(with("checkpoint.every", "0").checkpoint.on());
  EXPECT_EQ(with("checkpoint.every", "10min").checkpoint.every_seconds, 600);
  EXPECT_EQ(with("checkpoint.every", "10min").checkpoint.every_steps, 0);
  for (const char* text : {"-1", "soon", "0s", "1.5"})
    EXPECT_NE(message_of<ConfigError>([&] { with("checkpoint.every", text); }), "") << text;
}

TEST(Option, DurationsReadBackExactly) {
  for (const char* text : {"500ms", "60s", "1500ms", "1h"}) {
    const Config config = with("comm.timeout", text);
    const auto& option = *find_option("comm.timeout");
    const Value value = get_option(config, option);
    EXPECT_EQ(with("comm.timeout", std::get<std::string>(value.data)), config) << text;
  }
}

TEST(Unknown, SuggestsTheNearKey) {
  const auto says = [](std::string_view name) {
    return message_of<ConfigError>([&] { throw_unknown("c.toml:3", name, "1"); });
  };
  EXPECT_TRUE(says("train.stesp").starts_with("c.toml:3: train.stesp = 1: unknown key\n  did you mean 'train.steps'?"))
      << says("train.stesp");
  EXPECT_NE(says("train.lr").find("did you mean 'optimizer.lr'?"), std::string::npos)
      << "the right key in the wrong section";
  EXPECT_NE(says("steps").find("did you mean 'train.steps'?"), std::string::npos) << "no section at all";
  EXPECT_NE(says("modle.heads").find("did you mean 'model.heads'?"), std::string::npos);
  EXPECT_NE(says("modle").find("did you mean 'model'?"), std::string::npos);
  EXPECT_NE(says("train.learning_rate").find("did you mean 'optimizer.lr'?"), std::string::npos)
      << "another system's name";
  EXPECT_NE(says("train.gradient_checkpointing").find("did you mean 'train.checkpoint_activations'?"),
            std::string::npos);
}

TEST(Unknown, DistantNamesListAllChoices) {
  const std::string section = message_of<ConfigError>([] { throw_unknown("c.toml:1", "train", "5"); });
  EXPECT_TRUE(
      section.starts_with("c.toml:1: train = 5: a section, not a key\n  write [train], and its keys below: steps"))
      << section;
  const std::string message = message_of<ConfigError>([] { throw_unknown("", "zero.qqqqqqqq", ""); });
  EXPECT_EQ(message.find("did you mean"), std::string::npos) << message;
  EXPECT_NE(message.find("keys of [zero]: stage group secondary_group shards shard_weights reduce device_memory"),
            std::string::npos)
      << message;
}

TEST(Option, TierFractionSumsNeverExceedOne) {
  const Config mixed = with("zero.optimizer", "{host = 0.6, disk = 0.4}");
  EXPECT_EQ(mixed.engine.offload.fractions.optimizer, (TierFractions{.host = 0.6, .disk = 0.4}));
  EXPECT_EQ(with("zero.parameter", "{device = 0.25, disk = 0.75}").engine.offload.fractions.parameter,
            (TierFractions{.disk = 0.75}));
  EXPECT_EQ(with("zero.gradient", "{}").engine.offload.fractions.gradient, TierFractions{});
  EXPECT_TRUE(says(refusal("zero.optimizer", "{host = 0.6, disk = 0.6}"), "they sum to 1.2, which is more than 1"));
  EXPECT_TRUE(says(refusal("zero.optimizer", "{device = 0.5, disk = 0.4}"), "they sum to 0.9, not 1"));
  EXPECT_TRUE(says(refusal("zero.optimizer", "{hsot = 1}"), "did you mean 'host'?"));
  EXPECT_TRUE(says(refusal("zero.optimizer", "{host = -1}"), "out of range"));
  EXPECT_TRUE(says(refusal("zero.optimizer", "0.5"), "a float does not fit here"));
}

TEST(Option, GroupsOfParametersAreTables) {
  const std::vector<GroupKeys> groups =
      with("optimizer.group", "[{parameters = '*.bias', lr_scale = 2}, {parameters = 'h.0.*', weight_decay = 0}]")
          .optimizer.group;
  EXPECT_EQ(groups, (std::vector<GroupKeys>{{.parameters = "*.bias", .lr_scale = 2},
                                            {.parameters = "h.0.*", .weight_decay = 0}}));
  EXPECT_TRUE(says(refusal("optimizer.group", "[{parameters = 'x', lr_scael = 2}]"), "did you mean 'lr_scale'?"));
  EXPECT_EQ(with("optimizer.group", "[{parameters = 'x', rule = 'adamw'}]").optimizer.group.front().rule, "adamw");
  EXPECT_TRUE(says(refusal("optimizer.group", "[{parameters = 'x', rule = 'adamv'}]"), "did you mean 'adamw'?"));
  EXPECT_TRUE(says(refusal("optimizer.group", "[{lr_scale = 2}]"), "a group without parameters"));
  EXPECT_TRUE(says(refusal("optimizer.group", "[{parameters = 'x', lr_scale = -1}]"), "out of range"));
  EXPECT_TRUE(says(refusal("optimizer.group", "['x']"), "a string does not fit here"));
}

TEST(Option, FoldersMayBeOneOrSeveral) {
  EXPECT_EQ(with("zero.disk", "/nvme0").engine.offload.disk, (std::vector<std::string>{"/nvme0"}));
  EXPECT_EQ(with("zero.disk", "[\"/a\", \"/b\"]").engine.offload.disk, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_TRUE(says(refusal("zero.disk", "[1]"), "an integer does not fit here"));
  EXPECT_EQ(with("data.columns", "[\"width\", 3]").data.columns, (std::vector<std::string>{"width", "3"}));
  EXPECT_EQ(with("data.columns", "width").data.columns, (std::vector<std::string>{"width"}));
  EXPECT_TRUE(says(refusal("data.columns", "[1.5]"), "a float does not fit here"));
  EXPECT_TRUE(says(refusal("data.labels", "[\"a\", \"a\"]"), "a is given twice"));
  EXPECT_TRUE(says(refusal("data.labels", "[\"\"]"), "an empty name"));
  EXPECT_TRUE(says(refusal("zero.disk", "[\"\"]"), "an empty path"));
}

}  // namespace
}  // namespace zero
