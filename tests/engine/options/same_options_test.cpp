#include "zero/engine/options/same_options.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/engine/thread_ranks.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

std::vector<ParamSpec> specs() {
  return {{.name = "a.weight", .shape = {4, 4}}, {.name = "a.bias", .shape = {4}}};
}

// The errors of rank 0 and rank 1. Rank 1 has the options `other` and the parameters `others`.
std::vector<std::string> ends(const AttachOptions& own, const AttachOptions& other,
                              std::vector<ParamSpec> others = specs()) {
  std::vector<std::string> said(2);
  on_ranks(2, [&](Communicator& comm) {
    const bool first = comm.rank() == 0;
    try {
      require_same_options(comm, first ? own : other, first ? specs() : others);
    } catch (const ConfigError& error) {
      said[static_cast<std::size_t>(comm.rank())] = error.what();
    }
  });
  return said;
}

TEST(SameOptions, EveryRankNamesDifferencesWithValues) {
  const auto said = ends({.optimizer = AdamWOptions{.lr = 1e-3}}, {.stage = 0, .optimizer = AdamWOptions{.lr = 2e-3}});
  EXPECT_EQ(said[0], said[1]);
  EXPECT_CONTAINS(said[0],
                  "attach() = rank 1: differs from rank 0's: stage = 0, not 3; optimizer.lr = 0.002, not 0.001");
  EXPECT_CONTAINS(ends({.clip = 1}, {.clip = 2})[0], "clip = 2, not 1");
  EXPECT_CONTAINS(ends({}, {.optimizer = SgdOptions{}})[0], "optimizer = sgd, not adamw");
  EXPECT_CONTAINS(ends({.optimizer = AdamWOptions{}}, {.optimizer = AdamWOptions{.beta2 = 0.5}})[0],
                  "optimizer.beta2 = 0.5, not 0.999");
}

TEST(SameOptions, ParameterGroupsCount) {
  EXPECT_CONTAINS(ends({}, {}, {{.name = "a.weight", .shape = {4, 8}}, {.name = "a.bias", .shape = {4}}})[0],
                  "a.weight = [4, 8] fp32");
  EXPECT_CONTAINS(ends({}, {}, {{.name = "a.weight", .shape = {4, 4}}})[0], "parameters = 1, not 2");
  const ParameterGroup all{.matches = [](const ParamSpec&) { return true; }, .lr_scale = 2};
  EXPECT_CONTAINS(ends({}, {.groups = {all}})[0], "weight decay 0.01, lr x 2, not");
}

TEST(SameOptions, AnotherOrderNamesBothParameters) {
  std::vector<ParamSpec> turned = specs();
  std::swap(turned[0], turned[1]);
  const auto said = ends({}, {}, turned);
  EXPECT_EQ(said[0], said[1]);
  EXPECT_CONTAINS(said[0], "parameter 0 (from 0) is a.bias, not a.weight");
}

TEST(SameOptions, EveryNumberOfARuleCounts) {
  MuonOptions other;
  other.adamw.lr = 0.5;
  EXPECT_CONTAINS(ends({.optimizer = MuonOptions{}}, {.optimizer = other})[0], "optimizer.adamw_lr = 0.5, not");
  AttachOptions scaled{.loss_scale = LossScaleOptions{}}, slow = scaled;
  slow.loss_scale->growth_interval = 7;
  EXPECT_CONTAINS(ends(scaled, slow)[0], "loss_scale.growth = every 7 updates, 1 at least, not every 2000 updates");
  AttachOptions patient = scaled;
  patient.loss_scale->hysteresis = 2;
  EXPECT_CONTAINS(ends(scaled, patient)[0], "loss_scale.hysteresis = 2 overflows, since it grew, not 1 overflows");
}

// These choices decide which parameters share a unit, and so which bytes cross.
TEST(SameOptions, ChoicesThatMakeUnitsCount) {
  std::vector<ParamSpec> table = specs();
  table[0].own_unit = true;
  EXPECT_CONTAINS(ends({}, {}, table)[0], "its own unit");
  const AttachOptions hidden{.optimizer = MuonOptions{}};
  AttachOptions named = hidden;
  named.groups = {{.matches = [](const ParamSpec&) { return true; }, .muon = false}};
  EXPECT_CONTAINS(ends(hidden, named)[0], "a.weight = [4, 4] fp32");
}

// Ranks may differ in budgets, tiers, threads and devices.
TEST(SameOptions, LocalOptionsMayDiffer) {
  AttachOptions other;
  other.threads = 2;
  other.device = "cuda:1";
  other.device_memory = MemoryBudget::parse("1MiB");
  for (const std::string& end : ends({}, other)) EXPECT_EQ(end, "");
}

TEST(SameOptions, GroupInheritsTheWeightDecay) {
  const ParameterGroup all{.matches = [](const ParamSpec&) { return true; }};
  AttachOptions options{.optimizer = AdamWOptions{.weight_decay = 0.5}, .groups = {all}};
  EXPECT_EQ(values_of(options, specs()[0]).weight_decay, 0.5);
  EXPECT_EQ(values_of(options, specs()[1]).weight_decay, 0) << "a vector has no decay, as without groups";
  options.groups.front().weight_decay = 0.0;
  EXPECT_EQ(values_of(options, specs()[0]).weight_decay, 0);
}

}  // namespace
}  // namespace zero
