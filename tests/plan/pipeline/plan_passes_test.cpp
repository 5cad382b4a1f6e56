#include "zero/plan/pipeline/plan_passes.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"

#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

// A chain of operators with a parameter each. A result has 1,000 bytes, and autograd keeps it. If weights take time,
// each operator is a product; the first one's input has no bytes.
ForwardGraph chain(int length, const OperatorSeconds& seconds) {
  ForwardGraph graph;
  for (int op = 0; op < length; ++op) {
    graph.params.push_back("layer." + std::to_string(op) + ".weight");
    graph.operators.push_back({.name = "mm",
                               .params = {op},
                               .inputs = op > 0 ? std::vector<int>{op - 1} : std::vector<int>(),
                               .outputs = {op},
                               .work = 1,
                               .seconds = seconds,
                               .saved = {op}});
    graph.values.push_back({.bytes = 1000, .differentiable = true});
    if (seconds.weights > 0)
      graph.operators.back().product = WaitingProduct{.input = op > 0 ? op - 1 : length, .param = op};
  }
  graph.values.push_back({.bytes = 0, .differentiable = true});
  graph.loss = length - 1;
  return graph;
}

const OperatorSeconds kEqual{.forward = 1, .inputs = 1, .weights = 1};

const OrderTrial& trial_of(const PlannedPasses& planned, PassOrder order) {
  return *std::ranges::find(planned.trials, order, &OrderTrial::order);
}

PlannedPasses choose(const ForwardGraph& graph, PipelineOptions options, int micros, const LinkSeconds& link = {}) {
  options.schedule = PassOrder::kAuto;
  return plan_passes(graph, options, micros, link);
}

// Two ranks and equal passes: zb-v and zb-h2 have only the skew. A section of zb-v takes half of the time.
TEST(PlanPasses, AutoTakesTheShortestOrder) {
  const PlannedPasses planned = choose(chain(8, kEqual), {.pipeline = 2}, 8);
  EXPECT_EQ(planned.order, PassOrder::kZbV);
  EXPECT_EQ(planned.plan.num_sections(), 4);
  for (const OrderTrial& trial : planned.trials) {
    EXPECT_EQ(trial.skipped, "");
    EXPECT_GE(trial.time.seconds, planned.time.seconds) << name_of(trial.order);
  }
  EXPECT_EQ(trial_of(planned, PassOrder::kOneForwardOneBackward).time.bubble, 4 * 3);
  EXPECT_EQ(trial_of(planned, PassOrder::kZbH1).time.bubble, 4);
}

// Operators 1 to 3 are an activation checkpoint: results 1 and 2 are used only inside it.
TEST(PlanPasses, CheckpointsHoldLessAndRunAgain) {
  ForwardGraph graph = chain(4, kEqual);
  graph.kept_together = {{1, 4}};
  const PlannedPasses planned = plan_passes(graph, {.pipeline = 1}, 2, {});
  const SectionCosts costs = costs_of_sections(graph, planned.sections, /*split=*/false).front();
  EXPECT_EQ(costs.forward, 4);
  EXPECT_EQ(costs.inputs, 4 + 3);
  EXPECT_EQ(planned.time.ranks.front().activation_bytes, 2 * 1000 + 3 * 1000) << "1f1b holds one micro-batch";
}

// A head is tied to the lookup of operator 0. So passes of weights make only the gradients of operators 1 and 2.
TEST(PlanPasses, TiedHeadsAreNotPostponed) {
  ForwardGraph graph = chain(4, kEqual);
  graph.operators[0].product.reset();
  graph.operators[3].params = {0};
  graph.operators[3].product = WaitingProduct{.input = 2, .param = 0};
  const PlannedPasses planned = plan_passes(graph, {.pipeline = 2, .schedule = PassOrder::kZbH1}, 4, {});
  ASSERT_TRUE(planned.sections.has_lookup);
  const auto sums = [&](bool split) {
    std::pair<double, double> of_model;
    for (const SectionCosts& section : costs_of_sections(graph, planned.sections, split)) {
      of_model.first += section.inputs;
      of_model.second += section.weights;
    }
    return of_model;
  };
  EXPECT_EQ(sums(/*split=*/true), std::pair(6.0, 2.0));
  EXPECT_EQ(sums(/*split=*/false), std::pair(4.0, 4.0));
}

// Without passes of weights all orders with one section a rank take equal time.
TEST(PlanPasses, EqualTimesTakeTheSmallestMemory) {
  const PlannedPasses planned =
      choose(chain(8, {.forward = 1, .inputs = 2, .weights = 0}), {.pipeline = 2, .sections = 2}, 8);
  EXPECT_EQ(planned.order, PassOrder::kOneForwardOneBackward);
  EXPECT_EQ(trial_of(planned, PassOrder::kGpipe).time.seconds, planned.time.seconds);
  EXPECT_EQ(trial_of(planned, PassOrder::kGpipe).activation_bytes, 8 * (4 + 1) * 1000) << "and the received value";
  EXPECT_EQ(trial_of(planned, PassOrder::kOneForwardOneBackward).activation_bytes, 2 * 4 * 1000);
}

// More forward passes ahead hide a slow link: gpipe needs no answer before it continues.
TEST(PlanPasses, SlowLinksChangeTheChoice) {
  const ForwardGraph graph = chain(2, {.forward = 1, .inputs = 2, .weights = 0});
  const PlannedPasses planned = choose(graph, {.pipeline = 2, .sections = 2}, 8, {.latency = 0, .per_byte = 3e-3});
  EXPECT_NE(name_of(planned.order, planned.plan.depth), "1f1b");
  EXPECT_LT(planned.time.seconds, trial_of(planned, PassOrder::kOneForwardOneBackward).time.seconds);
}

// Messages of a large latency, and many micro-batches: gpipe hides them with the activations of all micro-batches, a
// deeper 1f1b with those of some.
TEST(PlanPasses, LatencyGetsADepth) {
  const ForwardGraph graph = chain(8, {.forward = 1, .inputs = 1, .weights = 0});
  const PlannedPasses planned = choose(graph, {.pipeline = 2, .sections = 2}, 32, {.latency = 20, .per_byte = 0});
  EXPECT_EQ(planned.order, PassOrder::kOneForwardOneBackward);
  EXPECT_GE(planned.plan.depth, 4);
  EXPECT_LE(planned.time.ranks[0].activation_bytes,
            trial_of(planned, PassOrder::kGpipe).time.ranks[0].activation_bytes / 2);
  const std::string line = fmt::format("1f1b depth {}        2", planned.plan.depth);
  EXPECT_TRUE(says(order_table(planned), line)) << order_table(planned);
  const PipelineOptions fixed{.pipeline = 2, .sections = 2, .depth = planned.plan.depth};
  EXPECT_EQ(plan_passes(graph, fixed, 32, {}).plan.passes, planned.plan.passes);
}

TEST(PlanPasses, ActivationMemoryLimitsTheChoice) {
  const ForwardGraph graph = chain(8, kEqual);
  const PlannedPasses unlimited = choose(graph, {.pipeline = 2, .sections = 2}, 8);
  const std::int64_t less = trial_of(unlimited, PassOrder::kZbH1).activation_bytes;
  EXPECT_LT(less, trial_of(unlimited, PassOrder::kZbH2).activation_bytes);
  const PlannedPasses planned = choose(graph, {.pipeline = 2, .sections = 2, .activation_memory = less}, 8);
  EXPECT_EQ(planned.order, PassOrder::kZbH1);
  const std::string& skipped = trial_of(planned, PassOrder::kZbH2).skipped;
  EXPECT_TRUE(says(skipped, " KiB of activations, parallel.activation_memory = ")) << skipped;
  const std::string text =
      message_of<ConfigError>([&] { choose(graph, {.pipeline = 2, .sections = 2, .activation_memory = 100}, 8); });
  EXPECT_TRUE(says(text, "parallel.activation_memory = 100 B: a rank holds 8000 B of activations (7.81 KiB)")) << text;
}

// A rounded number of bytes would be too small again.
TEST(PlanPasses, NamedActivationMemorySuffices) {
  ForwardGraph graph = chain(8, {.forward = 1, .inputs = 2, .weights = 0});
  for (GraphValue& value : graph.values) value.bytes = value.bytes * 1237 / 1000;
  const PipelineOptions options{.pipeline = 2, .sections = 2, .activation_memory = 100};
  const std::string text = message_of<ConfigError>([&] { choose(graph, options, 8); });
  const std::size_t at = text.find("use ");
  ASSERT_NE(at, std::string::npos) << text;
  PipelineOptions printed = options;
  printed.activation_memory =
      parse_bytes(text.substr(at + 4, text.find(',', at) - at - 4), "parallel.activation_memory");
  EXPECT_EQ(choose(graph, printed, 8).plan.ranks, 2) << text;
}

TEST(PlanPasses, ImpossibleOrdersAreSkippedWithReasons) {
  const PlannedPasses planned = choose(chain(3, kEqual), {.pipeline = 2}, 3);
  EXPECT_TRUE(says(trial_of(planned, PassOrder::kInterleaved).skipped, "train.accumulate = 3: "));
  EXPECT_TRUE(says(trial_of(planned, PassOrder::kZbV).skipped, "parallel.sections = 4: the model can be cut into"));
  const std::string table = order_table(planned);
  EXPECT_TRUE(says(table, "interleaved         4 skipped: train.accumulate = 3")) << table;
  EXPECT_EQ(std::ranges::count(table, '\n'), 7);
  EXPECT_TRUE(says(table, "  chosen\n")) << table;
}

TEST(PlanPasses, ImpossibleNumbersNameEachOrder) {
  const std::string text = message_of<ConfigError>([] { choose(chain(8, kEqual), {.pipeline = 2, .sections = 3}, 4); });
  EXPECT_TRUE(text.starts_with("parallel.schedule = auto: no order can use these numbers:\n")) << text;
  EXPECT_TRUE(says(text, "parallel.schedule = zb-v cannot use this number on 2 ranks")) << text;
  EXPECT_TRUE(text.ends_with("use parallel.sections = 2, or 0")) << text;
}

TEST(PlanPasses, TooFewPartsAreRefused) {
  const std::string text = message_of<ConfigError>([] { choose(chain(1, kEqual), {.pipeline = 2}, 4); });
  EXPECT_TRUE(says(text, "parallel.schedule = auto: no order of passes fits the model:")) << text;
}

TEST(PlanPasses, FixedOrdersHaveNoTable) {
  const PlannedPasses planned = plan_passes(chain(4, {}), {.pipeline = 2}, 4, {});
  EXPECT_EQ(planned.order, PassOrder::kOneForwardOneBackward);
  EXPECT_FALSE(planned.is_measured);
  EXPECT_EQ(order_table(planned), "");
}

// A forward pass takes 4 seconds, and 1.5 between the sections.
TEST(PlanPasses, NotesNameBubbleAndTimeout) {
  const auto notes = [](int micros, int timeout) {
    const PlannedPasses planned =
        plan_passes(chain(4, kEqual), {.pipeline = 2}, micros, {.latency = 0.5, .per_byte = 1e-3});
    EXPECT_EQ(planned.fill, 5.5);
    return notes_on(planned, std::chrono::seconds(timeout));
  };
  EXPECT_TRUE(notes(2, 22).empty());
  ASSERT_EQ(notes(2, 21).size(), 1U);
  EXPECT_CONTAINS(notes(2, 21).front(), "comm.timeout = 21.0 s is less than four times the 5.50 s of a forward pass");
  EXPECT_CONTAINS(notes(2, 21).front(), "use at least 22.0 s");
  ASSERT_EQ(notes(1, 22).size(), 1U);
  EXPECT_EQ(notes(1, 22).front(),
            "with fewer micro-batches (1) than positions (2) the bubble is 60.0 % of a step: begin with "
            "train.accumulate = 16");
}

// The first operator takes as long as the three others. Estimates take all for equal.
TEST(PlanPasses, MeasuredSecondsMoveTheCut) {
  ForwardGraph graph = chain(4, kEqual);
  graph.operators[0].seconds = {.forward = 3, .inputs = 3, .weights = 3};
  EXPECT_EQ(plan_passes(graph, {.pipeline = 2}, 4, {}).sections.of_operator, (std::vector<int>{0, 0, 1, 1}));
  const PlannedPasses planned = plan_passes(graph, {.pipeline = 2, .cut = CutBy::kSeconds}, 4, {});
  EXPECT_EQ(planned.sections.of_operator, (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(planned.sections.work, (std::vector<double>{9, 9}));
}

TEST(PlanPasses, NamedUnitsFixTheSections) {
  const PlannedPasses planned = choose(chain(4, kEqual), {.pipeline = 2, .first_units = {"layer.1"}}, 4);
  EXPECT_EQ(planned.sections.of_operator, (std::vector<int>{0, 1, 1, 1}));
  EXPECT_TRUE(says(trial_of(planned, PassOrder::kZbV).skipped, "parallel.sections = 2: ")) << "zb-v needs four";
}

// Also without a pipeline, and in every order of passes.
TEST(PlanPasses, NumbersBelowZeroAreRefused) {
  const std::vector<std::pair<std::string, PipelineOptions>> bad{
      {"parallel.sections", {.sections = -1}},
      {"parallel.depth", {.depth = -1}},
      {"parallel.activation_memory", {.activation_memory = -5}}};
  for (const auto& [key, numbers] : bad) {
    for (const int pipeline : {1, 2}) {
      PipelineOptions options = numbers;
      options.pipeline = pipeline;
      for (const PassOrder order : {PassOrder::kOneForwardOneBackward, PassOrder::kAuto}) {
        options.schedule = order;
        const std::string refusal = message_of<ConfigError>([&] { require_pipeline(options, 4); });
        EXPECT_TRUE(says(refusal, key + " = -"));
        EXPECT_TRUE(says(refusal, "must be a finite number, 0 or more\n  use"));
        EXPECT_EQ(message_of<ConfigError>([&] { require_pipeline_numbers(options); }), refusal);
      }
    }
  }
  EXPECT_NO_THROW(require_pipeline_numbers({}));
}

TEST(PlanPasses, NumbersOfUnitsMustFit) {
  EXPECT_EQ(message_of<ConfigError>([] {
              require_pipeline({.pipeline = 2, .first_units = {"a", "b"}}, 4);
            }),
            "parallel.cut = [\"a\", \"b\"]: it cuts the model into 3 sections, and parallel.schedule = 1f1b cannot use "
            "this number on 2 ranks\n  name 1 unit: the first unit of each section after the first");
  EXPECT_EQ(message_of<ConfigError>([] { require_pipeline({.pipeline = 2, .sections = 4, .first_units = {"a"}}, 4); }),
            "parallel.cut = [\"a\"]: it cuts the model into 2 sections, and parallel.sections = 4\n"
            "  name 3 units: the first unit of each section after the first");
}

}  // namespace
}  // namespace zero
