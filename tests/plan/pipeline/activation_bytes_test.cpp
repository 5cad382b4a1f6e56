#include "zero/plan/pipeline/activation_bytes.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

// A chain of operators with a parameter each. Operator n makes value n of 100 + n bytes, and autograd keeps its input.
ForwardGraph chain(int length) {
  ForwardGraph graph;
  for (int op = 0; op < length; ++op) {
    graph.params.push_back("layer." + std::to_string(op) + ".weight");
    graph.param_bytes.push_back(10);
    const std::vector<int> inputs = op > 0 ? std::vector<int>{op - 1} : std::vector<int>();
    graph.operators.push_back(
        {.name = "op", .params = {op}, .inputs = inputs, .outputs = {op}, .work = 1, .saved = inputs});
    graph.values.push_back({.bytes = 100 + op, .differentiable = true});
  }
  graph.loss = length - 1;
  return graph;
}

std::vector<HeldActivations> held(const ForwardGraph& graph, int count, const std::vector<int>& rank_of_section,
                                  bool split = false) {
  return activation_bytes(graph, cut_sections(graph, count), rank_of_section, split);
}

// The last value is the loss. It is kept, because the backward pass begins with it.
TEST(ActivationMemory, CountsWhatAutogradKeeps) {
  ForwardGraph graph = chain(4);
  EXPECT_EQ(held(graph, 1, {0}), std::vector<HeldActivations>{{.kept = 100 + 101 + 102 + 103}});
  graph.operators[2].saved.clear();
  EXPECT_EQ(held(graph, 1, {0}).front().kept, 100 + 102 + 103) << "value 1 is freed in the forward pass";
  graph.operators[2].own_bytes = 7;
  graph.constants = {{.bytes = 50, .made_by = 0}};
  graph.operators[2].saved_constants = graph.operators[3].saved_constants = {0};
  EXPECT_EQ(held(graph, 1, {0}).front().kept, 100 + 102 + 103 + 7 + 50) << "a constant counts once";
}

TEST(ActivationMemory, SharedMemoryCountsOnce) {
  ForwardGraph graph = chain(4);
  graph.values[1].memory_of = 0;
  graph.values[2].memory_of = 1;
  EXPECT_EQ(held(graph, 1, {0}).front().kept, 100 + 103);
}

// Operator 1 has no influence on the loss, so nothing that it kept is there after the forward pass.
TEST(ActivationMemory, DeadOperatorsKeepNothing) {
  ForwardGraph graph = chain(4);
  graph.operators[2].inputs = graph.operators[2].saved = {0};
  graph.operators[1].own_bytes = 1000;
  EXPECT_EQ(held(graph, 1, {0}).front().kept, 100 + 102 + 103);
}

// Value 1 crosses: its maker holds it for the gradient, though it does not need it.
TEST(ActivationMemory, BothSidesHoldACrossing) {
  const std::vector<HeldActivations> sections = held(chain(4), 2, {0, 1});
  EXPECT_EQ(sections[0], (HeldActivations{.kept = 100 + 101, .gradients_from = {1}}));
  EXPECT_EQ(sections[1],
            (HeldActivations{.kept = 101 + 102 + 103, .sent = {{.bytes = 101, .section = 0}}, .values_from = {0}}));
}

TEST(ActivationMemory, SectionsOfRankShareCrossing) {
  const std::vector<HeldActivations> sections = held(chain(4), 2, {0, 0});
  EXPECT_EQ(sections[0].kept, 100 + 101);
  EXPECT_EQ(sections[1], (HeldActivations{.kept = 102 + 103, .given = {{.bytes = 101, .section = 0}}}));
}

// Value 1 is used in sections 1 to 3. Section 3 has it from section 1 of its rank, and gives its gradient to section 2.
TEST(ActivationMemory, ASkipIsReceivedOnce) {
  ForwardGraph graph = chain(8);
  graph.operators[4].inputs.push_back(1);
  graph.operators[6].inputs.push_back(1);
  const std::vector<HeldActivations> sections = held(graph, 4, {0, 1, 0, 1});
  EXPECT_EQ(sections[1].kept, 101 + 102 + 103);
  EXPECT_EQ(sections[2].kept, 103 + 104 + 105);
  EXPECT_EQ(sections[3].kept, 105 + 106 + 107);
  EXPECT_EQ(sections[3].sent, (std::vector<HeldActivations::Sent>{{101, 2}, {105, 2}}));
  EXPECT_EQ(sections[3].values_from, (std::vector<int>{0, 2}));
  EXPECT_EQ(sections[0].gradients_from, std::vector<int>{1});
}

// Operators 1 and 2 are a checkpoint: it keeps value 0. Its second run keeps values 1 and 2, and the first copy of
// value 2 is there for operator 3.
TEST(ActivationMemory, CheckpointsKeepTheirInputs) {
  ForwardGraph graph = chain(4);
  graph.kept_together = {{1, 3}};
  graph.constants = {{.bytes = 50, .made_by = 0}, {.bytes = 60, .made_by = 1}};
  graph.operators[2].constants = {0, 1};
  graph.operators[2].saved_constants = {1};
  const HeldActivations all = held(graph, 1, {0}).front();
  EXPECT_EQ(all.kept, 100 + 50 + 102 + 103) << "constant 0 is older than the checkpoint";
  EXPECT_EQ(all.repeated, 101 + 102 + 60 - 102) << "operator 3 has freed value 2";
}

TEST(ActivationMemory, NestedCheckpointsRunInside) {
  ForwardGraph graph = chain(6);
  graph.operators.back().saved.clear();
  graph.kept_together = {{2, 4}, {1, 5}};
  const HeldActivations all = held(graph, 1, {0}).front();
  EXPECT_EQ(all.kept, 100 + 105);
  EXPECT_EQ(all.repeated, 104 + 101 + 103 + 102) << "the outer one keeps 101, 103 and 104, the inner one 102";
}

// Both operators are products. Operator 1 keeps value 0 for its weights, and later also the gradient of its result.
TEST(ActivationMemory, ProductsWaitForWeights) {
  ForwardGraph graph = chain(3);
  graph.operators[1].product = WaitingProduct{.input = 0, .param = 1};
  graph.operators[2].product = WaitingProduct{.input = 1, .param = 2};
  const HeldActivations whole = held(graph, 1, {0}).front();
  EXPECT_EQ(whole, (HeldActivations{.kept = 100 + 101 + 102}));
  const HeldActivations split = held(graph, 1, {0}, /*split=*/true).front();
  EXPECT_EQ(split.kept, 100 + 101 + 102);
  EXPECT_EQ(split.waiting, 100 + 101 + 101 + 102 + 10) << "inputs, gradients of results, and that of parameter 0";
  EXPECT_EQ(split.repeated, 101 + 102 + 10) << "the loss is held until the pass ends";
  EXPECT_EQ(split.gradients, 10) << "operator 2's, before its input is freed";
}

// The product's input is made in the second run, and waits.
TEST(ActivationMemory, SecondRunsPostponeProducts) {
  ForwardGraph graph = chain(4);
  graph.kept_together = {{1, 3}};
  graph.operators[2].product = WaitingProduct{.input = 1, .param = 2};
  const HeldActivations split = held(graph, 1, {0}, /*split=*/true).front();
  EXPECT_EQ(split.kept, 100 + 102 + 103);
  EXPECT_EQ(split.waiting, 101 + 102 + 3 * 10);
}

// A parameter with two uses has its gradient at once.
TEST(ActivationMemory, SharedWeightsDoNotWait) {
  ForwardGraph graph = chain(3);
  graph.operators[1].product = WaitingProduct{.input = 0, .param = 1};
  graph.operators[2].params = {1};
  const HeldActivations split = held(graph, 1, {0}, /*split=*/true).front();
  EXPECT_EQ(split.waiting, 10 + 10);
}

// The lookup of parameter 0 and the head are on one rank.
TEST(ActivationMemory, TiedGradientsWaitForLookups) {
  ForwardGraph graph = chain(4);
  graph.operators[3].params = {0};
  const Sections sections = cut_sections(graph, 2);
  ASSERT_TRUE(sections.has_lookup);
  const std::vector<HeldActivations> all = activation_bytes(graph, sections, {1, 0, 1}, /*split=*/true);
  EXPECT_EQ(all[2].given, (std::vector<HeldActivations::Given>{{.bytes = 10, .section = 0, .until_weights = true}}));
  EXPECT_EQ(all[0].waiting, 10);
}

}  // namespace
}  // namespace zero
