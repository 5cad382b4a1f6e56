#include "zero/plan/pipeline/sections.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

// Each operator has one parameter and makes one value from the previous value. `works`: the work of each operator.
ForwardGraph chain(const std::vector<double>& works) {
  ForwardGraph graph;
  for (int i = 0; i < static_cast<int>(works.size()); ++i) {
    graph.operators.push_back({.name = "mm", .params = {i}, .work = works[static_cast<std::size_t>(i)]});
    if (i > 0) graph.operators.back().inputs = {i - 1};
    graph.operators.back().outputs = {i};
    graph.values.push_back({.bytes = 100, .differentiable = true});
    graph.params.push_back("w" + std::to_string(i));
  }
  graph.loss = static_cast<int>(works.size()) - 1;
  return graph;
}

TEST(Sections, CutsBalanceTheWork) {
  EXPECT_EQ(cut_sections(chain({1, 1, 1, 1, 1, 5}), 2).of_operator, (std::vector<int>{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(cut_sections(chain({5, 1, 1, 1, 1, 1}), 2).of_operator, (std::vector<int>{0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(cut_sections(chain({1, 1, 1, 1, 1, 1}), 3).work, (std::vector<double>{2, 2, 2}));
}

// Within the tolerance, a cut after operator 2 balances as well as a cut after operator 1. Fewer bytes cross it.
TEST(Sections, FewerBytesDecideBetweenEqualCuts) {
  ForwardGraph graph = chain({100, 100, 1, 100, 100});
  graph.values[1].bytes = 1000;
  EXPECT_EQ(cut_sections(graph, 2).of_operator, (std::vector<int>{0, 0, 0, 1, 1}));
  graph.values[2].bytes = 10000;
  EXPECT_EQ(cut_sections(graph, 2).of_operator, (std::vector<int>{0, 0, 1, 1, 1}));
}

TEST(Sections, SkipConnectionsCrossToAllUsers) {
  ForwardGraph graph = chain({1, 1, 1});
  graph.operators[2].inputs = {1, 0};
  const Sections sections = cut_sections(graph, 3);
  ASSERT_EQ(sections.crossings.size(), 2U);
  EXPECT_EQ(sections.crossings[0], (Crossing{.value = 0, .made_by = 0, .from = 0, .to = {1, 2}}));
  EXPECT_EQ(sections.crossings[1], (Crossing{.value = 1, .made_by = 1, .from = 1, .to = {2}}));
}

TEST(Sections, InPlaceWritesStayWithValue) {
  ForwardGraph graph = chain({1, 1, 1, 1});
  graph.operators[2].inputs = {1};
  graph.operators[2].outputs = {1};  // writes value 1, so no cut is before it
  graph.operators[3].inputs = {1};
  EXPECT_EQ(cut_sections(graph, 2).of_operator, (std::vector<int>{0, 1, 1, 1}));
}

// Operators 0 and 1 are a layer that is applied twice. A cut between them would move its matrix, and leave section 0
// without a parameter.
TEST(Sections, EachHasAParameter) {
  ForwardGraph graph = chain({4, 4, 1, 1, 1, 1});
  graph.operators[1].params = {0};
  EXPECT_EQ(cut_sections(graph, 2).of_operator, (std::vector<int>{0, 0, 1, 1, 1, 1}));
  EXPECT_FALSE(cut_sections(graph, 2).has_lookup);
  graph.operators.resize(3);
  graph.loss = 2;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { cut_sections(graph, 3); }), "cut into at most 2 sections"));
  graph.operators[1].params = {0, 1};
  EXPECT_EQ(message_of<ConfigError>([&] { cut_at_units(graph, {"w1"}); }),
            "parallel.cut = w1: a section beside it has no parameter of its own: later sections also use them\n"
            "  cut at another unit");
}

// A recurrent layer: operator 1 adds to the result of operator 0 in place, and operator 4 uses its matrix again.
TEST(Sections, WrittenLookupsStay) {
  ForwardGraph graph = chain({1, 1, 1, 1, 1, 1});
  graph.operators[1] = {.name = "add_", .inputs = {0}, .outputs = {0}, .work = 1};
  graph.operators[2].inputs = {0};
  graph.operators[4].params = {0};
  const Sections sections = cut_sections(graph, 2);
  EXPECT_EQ(sections.of_operator, (std::vector<int>{0, 0, 0, 0, 0, 1}));
  EXPECT_FALSE(sections.has_lookup);
}

TEST(Sections, TiedLookupsFollowHead) {
  ForwardGraph graph = chain({1, 4, 4, 1});
  graph.operators[3].params = {0};
  const Sections sections = cut_sections(graph, 2);
  EXPECT_EQ(sections.count, 3);
  EXPECT_TRUE(sections.has_lookup);
  EXPECT_EQ(sections.home_of_lookup, 2);
  EXPECT_EQ(sections.of_operator, (std::vector<int>{0, 1, 2, 2}));
  EXPECT_EQ(sections.home_of_param, (std::vector<int>{0, 1, 2, 2}));
}

// Operator 0 is a layer. Its matrix w0 is also used in the loss, so the operator moves with w0 and its bias. A cut just
// after the operator would leave section 0 without a parameter.
TEST(Sections, LookupsTakeTheirParametersAlong) {
  ForwardGraph graph = chain({4, 4, 1, 1, 1, 1});
  graph.params.push_back("bias");
  graph.operators[0].params = {0, 6};
  graph.operators[5].params = {5, 0};
  const Sections sections = cut_sections(graph, 2);
  EXPECT_EQ(sections.of_operator, (std::vector<int>{0, 1, 2, 2, 2, 2}));
  EXPECT_EQ(sections.home_of_param, (std::vector<int>{0, 1, 2, 2, 2, 2, 0}));
}

// Operator 1 is a lookup of the bias of operator 0, which moves.
TEST(Sections, SharedParametersMoveTheirLookups) {
  ForwardGraph graph = chain({1, 1, 4, 4, 1});
  graph.params.push_back("bias");
  graph.operators[0].params = {0, 5};
  graph.operators[1].params = {5};
  graph.operators[1].inputs = {};
  graph.operators[2].inputs = {0, 1};
  graph.operators[4].params = {4, 0};
  const Sections sections = cut_sections(graph, 2);
  EXPECT_EQ(sections.of_operator, (std::vector<int>{0, 0, 1, 2, 2}));
  EXPECT_EQ(sections.home_of_param, (std::vector<int>{0, 2, 1, 2, 2, 0}));
}

// Only a lookup can be computed apart. This operator needs the previous value.
TEST(Sections, SharedParametersKeepUsesTogether) {
  ForwardGraph graph = chain({1, 1, 1, 1});
  graph.operators[3].params = {1};
  EXPECT_EQ(cut_sections(graph, 2).of_operator, (std::vector<int>{0, 1, 1, 1}));
}

// Operators 1 and 3 use a buffer that operator 3 writes.
TEST(Sections, WrittenBuffersKeepUsesTogether) {
  ForwardGraph graph = chain({1, 1, 1, 1, 1});
  graph.buffers = {"mean", "other"};
  graph.operators[1].buffers = graph.operators[3].buffers = {0};
  EXPECT_EQ(cut_sections(graph, 2).of_operator, (std::vector<int>{0, 1, 1, 1, 1}));
  EXPECT_EQ(cut_sections(graph, 3).of_operator, (std::vector<int>{0, 1, 1, 1, 2}));
  EXPECT_EQ(
      message_of<ConfigError>([&] { cut_at_units(graph, {"w2"}); }),
      "parallel.cut = w2: parts before and after it share a parameter, a buffer, or a value that is written in place\n"
      "  cut at another unit");
}

// In another pass the parameters of an operator decide, and operators without them follow the buffer.
TEST(Sections, WrittenBuffersFollowTheirSection) {
  ForwardGraph graph = chain({1, 1, 1, 1});
  graph.buffers = {"mean"};
  const Sections cut = cut_sections(graph, 2);
  ASSERT_EQ(cut.of_operator, (std::vector<int>{0, 0, 1, 1}));
  graph.operators[2].buffers = graph.operators[3].buffers = {0};
  graph.operators[3].params.clear();
  EXPECT_EQ(follow_sections(graph, cut).of_operator, (std::vector<int>{0, 0, 1, 1}));
  graph.operators[1].buffers = {0};
  EXPECT_EQ(message_of<ConfigError>([&] { follow_sections(graph, cut); }),
            "passes = mm: it belongs to section 1, and comes after operators of section 0\n"
            "  use parameters in the order of the training pass");
}

// An activation checkpoint over operators 1 to 4, and one inside it.
TEST(Sections, CheckpointsAreNotCut) {
  ForwardGraph graph = chain({1, 1, 1, 1, 1, 1});
  graph.kept_together = {{2, 4}, {1, 5}};
  EXPECT_EQ(cut_sections(graph, 2).of_operator, (std::vector<int>{0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(cut_sections(graph, 3).of_operator, (std::vector<int>{0, 1, 1, 1, 1, 2}));
}

// A lookup within an activation checkpoint stays there, so its parameter's other use does, too.
TEST(Sections, LookupsInCheckpointsStay) {
  ForwardGraph graph = chain({1, 1, 1, 1});
  graph.operators[2].params = {0};
  graph.kept_together = {{0, 2}};
  EXPECT_EQ(cut_sections(graph, 2).of_operator, (std::vector<int>{0, 0, 0, 1}));
}

TEST(Sections, MasksAreComputedEverywhere) {
  ForwardGraph graph = chain({1, 1});
  graph.operators.insert(graph.operators.begin() + 1, GraphOperator{.name = "tril", .work = 50, .everywhere = true});
  const Sections sections = cut_sections(graph, 2);
  EXPECT_EQ(sections.of_operator, (std::vector<int>{0, kEverywhere, 1}));
  EXPECT_EQ(sections.work, (std::vector<double>{1, 1}));
}

// An evaluation has more operators without parameters. Operators with parameters run at their parameters' homes.
TEST(Sections, EvaluationsFollowTheParameters) {
  ForwardGraph training = chain({1, 4, 4, 1});
  training.operators[3].params = {0};
  const Sections cut = cut_sections(training, 2);
  ForwardGraph evaluation = training;
  evaluation.operators.push_back({.name = "argmax", .inputs = {3}, .outputs = {4}});
  evaluation.values.push_back({.bytes = 8});
  const Sections sections = follow_sections(evaluation, cut);
  EXPECT_EQ(sections.of_operator, (std::vector<int>{0, 1, 2, 2, 2}));
  EXPECT_EQ(sections.crossings, cut.crossings);
}

TEST(Sections, EvaluationsInAnotherOrderAreRefused) {
  const Sections cut = cut_sections(chain({1, 1}), 2);
  ForwardGraph other = chain({1, 1});
  std::swap(other.operators[0].params, other.operators[1].params);
  EXPECT_EQ(message_of<ConfigError>([&] { follow_sections(other, cut); }),
            "passes = mm: it belongs to section 0, and comes after operators of section 1\n"
            "  use parameters in the order of the training pass");
}

TEST(Sections, TooManyAreRefused) {
  EXPECT_EQ(message_of<ConfigError>([] {
              cut_sections(chain({1, 1}), 3);
            }),
            "parallel.sections = 3: the model can be cut into at most 2 sections with parameters of their own\n"
            "  use at most 2; a parameter that several parts use keeps them together, and so does an activation "
            "checkpoint");
}

TEST(Sections, NamedUnitsBeginSections) {
  ForwardGraph graph = chain({1, 1, 1, 1});
  graph.params = {"h.0.weight", "h.1.weight", "h.10.weight", "head"};
  EXPECT_EQ(cut_at_units(graph, {"h.1"}).of_operator, (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(cut_at_units(graph, {"h.1.", "head"}).of_operator, (std::vector<int>{0, 1, 1, 2}));
  EXPECT_EQ(cut_at_units(graph, {"h.10.weight"}).work, (std::vector<double>{2, 2}));
}

// Operator 1 has no parameter, as an addition. Fewer bytes cross after it.
TEST(Sections, NamedUnitsCutAtFewBytes) {
  ForwardGraph graph = chain({1, 1, 1});
  graph.operators[1].params.clear();
  EXPECT_EQ(cut_at_units(graph, {"w2"}).of_operator, (std::vector<int>{0, 0, 1}));
  graph.values[1].bytes = 1000;
  EXPECT_EQ(cut_at_units(graph, {"w2"}).of_operator, (std::vector<int>{0, 1, 1}));
}

TEST(Sections, ImpossibleUnitsAreNamed) {
  ForwardGraph graph = chain({1, 1, 1, 1});
  const auto refusal = [&](const std::vector<std::string>& units) {
    return message_of<ConfigError>([&] { cut_at_units(graph, units); });
  };
  EXPECT_EQ(refusal({"w9"}),
            "parallel.cut = w9: the model has no such unit and no such parameter\n"
            "  use the begin of a parameter's name, such as w3");
  EXPECT_EQ(refusal({"w0"}),
            "parallel.cut = w0: the model's first unit begins section 0\n"
            "  name the first units of the other sections");
  EXPECT_EQ(refusal({"w2", "w1"}),
            "parallel.cut = w1: the forward pass uses it before the unit that is named before it\n"
            "  name units in the order of the forward pass");
  graph.params = {"a.h.0", "a.h.1", "b.h.1", "b.x"};
  EXPECT_EQ(refusal({"h.1"}), "parallel.cut = h.1: it may be a.h.1 or b.h.1\n  use the whole name");
  EXPECT_EQ(cut_at_units(graph, {"x"}).of_operator, (std::vector<int>{0, 0, 0, 1}));
  graph.params = {"w0", "w1", "w2", "w3"};
  graph.operators[3].params = {1};  // tied, and not by a lookup
  EXPECT_EQ(
      refusal({"w2"}),
      "parallel.cut = w2: parts before and after it share a parameter, a buffer, or a value that is written in place\n"
      "  cut at another unit");
  EXPECT_EQ(refusal({"w3"}), "parallel.cut = w3: the forward pass does not use it\n  cut at another unit");
}

}  // namespace
}  // namespace zero
