// Random orders of passes with random costs and links, in virtual time. A walk that is independent of simulate() checks
// each pipeline. Every rank gets to its end, every pass runs once and after its inputs, and micro-batches ascend. Both
// find the same seconds, the same most micro-batches in flight, and the same most bytes. docs/guide/pipeline.md has the
// bounds.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/plan/pipeline/pipeline_time.h"

#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

struct RandomPipeline {
  PassOrder order = PassOrder::kGpipe;
  int ranks = 1, per_rank = 1, micros = 1, depth = 0;
  std::optional<int> lookup{};  // rank of a lookup section
  PassCosts costs{};
  PipelineLinks links{};

  PipelinePlan plan() const {
    const PipelinePlan plan = build_pipeline(order, ranks, per_rank * ranks, micros, depth);
    return lookup ? with_lookup(plan, *lookup) : plan;
  }
  std::string text() const {
    return fmt::format("{}, {} ranks, {} sections a rank, {} micro-batches, depth {}, lookups on {}", name_of(order),
                       ranks, per_rank, micros, depth, lookup.value_or(-1));
  }

  // Most micro-batches that a rank has open, counted for each of its sections.
  int most_in_flight(int rank) const {
    int most = 0;
    switch (order) {
      case PassOrder::kGpipe:
      case PassOrder::kAuto:
        most = micros;
        break;
      case PassOrder::kOneForwardOneBackward:
        most = std::min(micros, (1 + depth) * (ranks - 1 - rank) + 1);
        break;
      case PassOrder::kInterleaved:
        most = std::min(per_rank * micros, 2 * (ranks - rank - 1) + (per_rank - 1) * ranks + 1);
        break;
      case PassOrder::kZbH1:
        most = std::min(micros, ranks);
        break;
      case PassOrder::kZbH2:
        most = std::min(micros, 2 * ranks - 1);
        break;
      case PassOrder::kZbV:
        most = std::min(2 * micros, 2 * ranks);
        break;
    }
    return lookup == rank ? most + micros : most;
  }
};

// Whole numbers, so sums of seconds are exact.
RandomPipeline random_pipeline(std::mt19937& random) {
  constexpr int kMostRanks = 6, kMostMicros = 10, kMostDepth = 3, kMostPerRank = 4;
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  RandomPipeline drawn{.order = kPassOrders[random() % (kPassOrders.size() - 1)].value,  // the last is auto
                       .ranks = 1 + up_to(kMostRanks - 1),
                       .micros = 1 + up_to(kMostMicros - 1)};
  if (drawn.order == PassOrder::kOneForwardOneBackward) drawn.depth = up_to(kMostDepth);
  if (drawn.order == PassOrder::kZbV) drawn.per_rank = 2;
  if (drawn.order == PassOrder::kInterleaved) {
    drawn.per_rank = 2 + up_to(kMostPerRank - 2);
    drawn.micros = drawn.ranks * (1 + up_to(kMostMicros / drawn.ranks));
  }
  if (up_to(3) == 0) drawn.lookup = up_to(drawn.ranks - 1);
  const int sections = drawn.per_rank * drawn.ranks + (drawn.lookup ? 1 : 0);
  for (int section = 0; section < sections; ++section) {
    const auto seconds = [&] { return static_cast<double>(up_to(20)); };
    drawn.costs.push_back({.forward = seconds(),
                           .inputs = seconds(),
                           .weights = seconds(),
                           .held = {.kept = up_to(1000), .waiting = up_to(100), .gradients = up_to(100)}});
    drawn.links.forward.push_back(seconds());
    drawn.links.backward.push_back(seconds());
  }
  drawn.links.latency = static_cast<double>(up_to(30));
  if (up_to(4) == 0) drawn.links = {};
  return drawn;
}

// Runs a plan pass by pass. Says why it cannot, in `fault`.
class Walk {
 public:
  Walk(const RandomPipeline& drawn, const PipelinePlan& plan) : drawn_(drawn), plan_(plan) {
    for (int section = 0; section < plan.num_sections(); ++section)
      for (int kind = 0; kind < 4; ++kind) next_micro_[{section, kind}] = 0;
    rank_end.assign(plan.passes.size(), 0);
    in_flight.assign(plan.passes.size(), 0);
    bytes.assign(plan.passes.size(), 0);
    run();
  }

  std::string fault;
  std::vector<double> rank_end;
  std::vector<int> in_flight;       // by rank, most
  std::vector<std::int64_t> bytes;  // by rank, most

 private:
  using Made = std::pair<int, int>;  // section and micro-batch

  void run() {
    std::vector<std::size_t> at(plan_.passes.size(), 0);
    std::vector<int> open(plan_.passes.size(), 0);
    std::vector<std::int64_t> held(plan_.passes.size(), 0);
    std::size_t left = 0;
    for (const std::vector<Pass>& passes : plan_.passes) left += passes.size();
    while (left > 0) {
      bool runs = false;
      for (std::size_t rank = 0; rank < at.size(); ++rank) {
        if (at[rank] == plan_.passes[rank].size()) continue;
        const Pass& pass = plan_.passes[rank][at[rank]];
        const std::optional<double> begin = inputs_there(pass);
        if (!begin) continue;
        runs = true;
        --left;
        ++at[rank];
        require_next(pass, static_cast<int>(rank));
        rank_end[rank] = std::max(rank_end[rank], *begin) + seconds(pass);
        finish(pass, static_cast<int>(rank), rank_end[rank]);
        hold(pass, open[rank], held[rank], rank);
      }
      if (!runs) {
        fault = "ranks wait for each other";
        return;
      }
    }
    for (const auto& [section_kind, count] : next_micro_) {
      const auto kind = static_cast<PassKind>(section_kind.second);
      const bool has = kind == PassKind::kForward || splits_backward(drawn_.order) != (kind == PassKind::kBackward);
      if (count != (has ? plan_.micros : 0)) fault = fmt::format("section {} lacks passes", section_kind.first);
    }
  }

  void require_next(const Pass& pass, int rank) {
    if (plan_.rank_of_section[static_cast<std::size_t>(pass.section)] != rank) fault = "a pass of another rank";
    if (next_micro_[{pass.section, static_cast<int>(pass.kind)}]++ != pass.micro)
      fault = fmt::format("{} is not next", zero::text_of(pass));
  }

  std::optional<double> inputs_there(const Pass& pass) const {
    const Made own{pass.section, pass.micro};
    const auto there = [](const std::map<Made, double>& of, const Made& made) -> std::optional<double> {
      const auto found = of.find(made);
      return found == of.end() ? std::nullopt : std::optional(found->second);
    };
    switch (pass.kind) {
      case PassKind::kForward:
        return pass.section == 0 ? 0 : there(values_, own);
      case PassKind::kWeights:
        return there(inputs_, own);
      case PassKind::kBackward:
      case PassKind::kInputs:
        break;
    }
    const std::optional<double> forward = there(forward_, own);
    const std::optional<double> gradient = pass.section == plan_.num_sections() - 1 ? forward : there(gradients_, own);
    if (!forward || !gradient) return std::nullopt;
    return std::max(*forward, *gradient);
  }

  double seconds(const Pass& pass) const {
    const SectionCosts& costs = drawn_.costs[static_cast<std::size_t>(pass.section)];
    switch (pass.kind) {
      case PassKind::kForward:
        return costs.forward;
      case PassKind::kBackward:
        return costs.inputs + costs.weights;
      case PassKind::kInputs:
        return costs.inputs;
      case PassKind::kWeights:
        break;
    }
    return costs.weights;
  }

  void finish(const Pass& pass, int rank, double end) {
    const Made own{pass.section, pass.micro};
    if (pass.kind == PassKind::kForward) {
      forward_[own] = end;
      if (pass.section + 1 < plan_.num_sections())
        values_[{pass.section + 1, pass.micro}] = sent(pass.section, pass.section + 1, rank, end);
    } else if (pass.kind != PassKind::kWeights) {
      inputs_[own] = end;
      if (pass.section > 0)
        gradients_[{pass.section - 1, pass.micro}] = sent(pass.section, pass.section - 1, rank, end);
    }
  }

  // The moment at which a message has arrived.
  double sent(int from, int to, int rank, double end) {
    const int reader = plan_.rank_of_section[static_cast<std::size_t>(to)];
    if (reader == rank) return end;
    const std::vector<double>& link = to > from ? drawn_.links.forward : drawn_.links.backward;
    double& busy = link_busy_[{rank, reader}];
    busy = std::max(busy, end) + (link.empty() ? 0 : link[static_cast<std::size_t>(from)]);
    return busy + drawn_.links.latency;
  }

  void hold(const Pass& pass, int& open, std::int64_t& held, std::size_t rank) {
    const HeldActivations& own = drawn_.costs[static_cast<std::size_t>(pass.section)].held;
    std::int64_t more = 0;
    switch (pass.kind) {
      case PassKind::kForward:
        ++open;
        held += own.kept;
        break;
      case PassKind::kBackward:
        --open;
        held -= own.kept;
        break;
      case PassKind::kInputs:
        held += own.waiting - own.kept;
        break;
      case PassKind::kWeights:
        more = own.gradients;
        bytes[rank] = std::max(bytes[rank], held + more);
        --open;
        held -= own.waiting;
        break;
    }
    in_flight[rank] = std::max(in_flight[rank], open);
    bytes[rank] = std::max(bytes[rank], held);
  }

  const RandomPipeline& drawn_;
  const PipelinePlan& plan_;
  std::map<std::pair<int, int>, int> next_micro_;  // by section and kind
  std::map<Made, double> values_, gradients_, forward_, inputs_;
  std::map<std::pair<int, int>, double> link_busy_;
};

// ZERO_PIPELINES sets the number of pipelines. Under a sanitizer each takes twenty times as long.
TEST(RandomPipelines, RunWithinTheirBounds) {
  const int trials = num_trials("ZERO_PIPELINES", 100'000, 1'000'000) / (built::kSanitized ? 20 : 1);
  std::mt19937 random(51);
  std::map<PassOrder, int> tried;
  for (int trial = 0; trial < trials; ++trial) {
    const RandomPipeline drawn = random_pipeline(random);
    const PipelinePlan plan = drawn.plan();
    ++tried[drawn.order];
    const Walk walk(drawn, plan);
    ASSERT_EQ(walk.fault, "") << drawn.text();
    const PipelineTime time = simulate(plan, drawn.costs, drawn.links);
    double first = time.ranks.front().start;
    for (std::size_t rank = 0; rank < plan.passes.size(); ++rank) {
      const RankTime& of = time.ranks[rank];
      first = std::min(first, of.start);
      ASSERT_EQ(of.end, walk.rank_end[rank]) << drawn.text();
      ASSERT_EQ(of.in_flight, walk.in_flight[rank]) << drawn.text();
      ASSERT_LE(of.in_flight, drawn.most_in_flight(static_cast<int>(rank))) << drawn.text() << ", rank " << rank;
      ASSERT_EQ(of.activation_bytes, walk.bytes[rank]) << drawn.text();
    }
    ASSERT_EQ(time.seconds, *std::ranges::max_element(walk.rank_end) - first) << drawn.text();
  }
  EXPECT_EQ(tried.size(), kPassOrders.size() - 1);
}

// Plans that must not pass: the walk finds a missing, a doubled and a moved pass, and ranks that wait for each other.
TEST(RandomPipelines, WalkFindsWrongPlans) {
  const RandomPipeline drawn{.order = PassOrder::kZbH1, .ranks = 3, .micros = 4, .costs = costs_of({1, 1, 1}, 3)};
  const PipelinePlan plan = drawn.plan();
  ASSERT_EQ(Walk(drawn, plan).fault, "");
  for (std::size_t rank = 0; rank < 3; ++rank) {
    for (std::size_t pass = 0; pass < plan.passes[rank].size(); ++pass) {
      PipelinePlan missing = plan, doubled = plan;
      missing.passes[rank].erase(missing.passes[rank].begin() + static_cast<std::ptrdiff_t>(pass));
      EXPECT_NE(Walk(drawn, missing).fault, "") << rank << ", " << pass;
      doubled.passes[rank].insert(doubled.passes[rank].begin() + static_cast<std::ptrdiff_t>(pass),
                                  plan.passes[rank][pass]);
      EXPECT_NE(Walk(drawn, doubled).fault, "") << rank << ", " << pass;
    }
  }
  PipelinePlan early = plan;
  std::ranges::rotate(early.passes[0], std::ranges::find(early.passes[0], Pass{PassKind::kInputs, 0, 0}));
  EXPECT_NE(Walk(drawn, early).fault, "");
}

}  // namespace
}  // namespace zero
