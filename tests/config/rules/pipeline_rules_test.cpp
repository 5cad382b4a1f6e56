#include "app/config/rules/pipeline_rules.h"

#include <functional>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/config/rules/fit_to_world.h"
#include "app/config/rules/rules.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

std::string refusal(const std::function<void(Config&)>& change) {
  LoadedConfig loaded;
  loaded.config.parallel.pipeline = 2;
  change(loaded.config);
  return message_of<ConfigError>([&] { check_rules(loaded); });
}

TEST(PipelineRules, DefaultsWorkWithAPipeline) {
  LoadedConfig loaded;
  loaded.config.parallel.pipeline = 2;
  EXPECT_NO_THROW(check_rules(loaded));
}

TEST(PipelineRules, UnsupportedKeysAreNamed) {
  const std::vector<std::pair<std::string, std::function<void(Config&)>>> cases{
      {"sync.mode = \"local\"", [](Config& config) { config.local.on = true; }},
      {"sync.servers = 1", [](Config& config) { config.engine.sync.servers = 1; }},
      {"zero.delayed_update = true", [](Config& config) { config.engine.delayed_update = true; }},
      {"train.gradient_noise = 0.1", [](Config& config) { config.train.gradient_noise = 0.1; }},
      {"train.share = \"auto\"", [](Config& config) { config.train.share.kind = ShareKind::kMeasured; }},
      {"checkpoint.memory_every = 1", [](Config& config) { config.checkpoint.memory_every = 1; }},
      {"comm.gather_wire = \"int8\"", [](Config& config) { config.engine.wire.gather = WireCodec::kInt8; }},
      {"comm.reduce_wire = \"int8\"", [](Config& config) { config.engine.wire.reduce = WireCodec::kInt8; }},
      {"comm.outer_wire = \"int4\"",
       [](Config& config) {
         config.engine.group = 2;
         config.engine.wire.outer = WireCodec::kInt4;
       }},
      {"run.device = \"cuda\"", [](Config& config) { config.run.device = "cuda"; }},
  };
  for (const auto& [start, change] : cases) {
    const std::string text = refusal(change);
    EXPECT_TRUE(text.starts_with(start)) << start << ": " << text;
    EXPECT_TRUE(says(text, "or set parallel.pipeline = 1")) << text;
  }
}

TEST(PipelineRules, KeysWithoutAPipelineAreRefused) {
  const std::string text = refusal([](Config& config) { config.parallel = {.pipeline = 1, .sections = 2}; });
  EXPECT_EQ(text,
            "parallel.sections = 2: it has no effect without a pipeline (parallel.pipeline = 1)\n"
            "  set parallel.pipeline to 2 or more, or leave it out");
}

TEST(PipelineRules, ActivationMemoryNeedsAChoice) {
  const auto limited = [](PassOrder schedule) {
    return [schedule](Config& config) {
      config.parallel.schedule = schedule;
      config.parallel.activation_memory = 1 << 20;
    };
  };
  EXPECT_EQ(refusal(limited(PassOrder::kZbH1)),
            "parallel.activation_memory = \"1048576B\": it has no effect with parallel.schedule = zb-h1: it limits the "
            "choice of an order\n  leave it out, or set parallel.schedule to auto");
  LoadedConfig chosen;
  chosen.config.parallel.pipeline = 2;
  limited(PassOrder::kAuto)(chosen.config);
  EXPECT_NO_THROW(check_rules(chosen));
}

TEST(PipelineRules, NamedUnitsMustFitTheOrder) {
  LoadedConfig loaded;
  loaded.config.parallel = {.pipeline = 2, .first_units = {"h.1", "h.2"}};
  const std::string text = message_of<ConfigError>([&] { fit_to_world(loaded, 2); });
  EXPECT_TRUE(text.starts_with("parallel.cut = [\"h.1\", \"h.2\"]: it cuts the model into 3 sections")) << text;
  EXPECT_TRUE(says(refusal([](Config& config) { config.parallel = {.pipeline = 1, .cut = CutBy::kSeconds}; }),
                   "parallel.cut = \"measured\": it has no effect without a pipeline"));
}

// Three micro-batches fit all orders but interleaved. Three sections on two ranks fit no order.
TEST(PipelineRules, AutoNeedsOnePossibleOrder) {
  LoadedConfig loaded;
  loaded.config.parallel = {.pipeline = 2, .schedule = PassOrder::kAuto};
  loaded.config.train.accumulate = 3;
  EXPECT_NO_THROW(fit_to_world(loaded, 2));
  loaded.config.parallel.sections = 3;
  const std::string text = message_of<ConfigError>([&] { fit_to_world(loaded, 2); });
  EXPECT_TRUE(text.starts_with("parallel.schedule = auto: no order can use these numbers:")) << text;
}

TEST(PipelineRules, LinesDivideTheWorld) {
  LoadedConfig loaded;
  loaded.config.parallel.pipeline = 2;
  EXPECT_EQ(message_of<ConfigError>([&] { fit_to_world(loaded, 3); }),
            "parallel.pipeline = 2: it must divide the number of ranks, which is 3\n"
            "  use a divisor of that number, or start another number of ranks (-n); 1: no pipeline");
  loaded.config.train.accumulate = 3;
  loaded.config.parallel.schedule = PassOrder::kInterleaved;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { fit_to_world(loaded, 4); }), "train.accumulate = 3"));
}

// The ranks at a position hold one model, so groups divide them.
TEST(PipelineRules, GroupsDivideThePosition) {
  LoadedConfig loaded;
  loaded.config.parallel.pipeline = 2;
  loaded.config.train.accumulate = 2;
  loaded.config.engine.group = 2;
  EXPECT_NO_THROW(fit_to_world(loaded, 8));
  const std::string text = message_of<ConfigError>([&] { fit_to_world(loaded, 6); });
  EXPECT_TRUE(text.starts_with("zero.group = 2: ")) << text;
}

// All ranks of a line read the same samples.
TEST(PipelineRules, LinesShareTheBatch) {
  LoadedConfig loaded;
  loaded.config.parallel.pipeline = 2;
  loaded.config.train.batch = 6;
  fit_to_world(loaded, 4);
  EXPECT_EQ(loaded.config.train.global_batch, 6 * loaded.config.train.accumulate * 2);
}

}  // namespace
}  // namespace zero
