// A link's transfers are hidden behind computation if the computation is long enough. The link is simulated, and time
// is the test's own, so no result depends on the machine.
#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/simulated_time.h"

namespace zero {
namespace {

constexpr int kBlocks = 24;
constexpr std::int64_t kNumel = 20480;  // of each block
constexpr int kRanks = 2;
constexpr int kSteps = 3;
// The model always waits for its first unit, which is tiny, and for the first block, which is gathered ahead with it.
// There are many blocks, so these waits are short.
std::vector<ParamSpec> specs() {
  std::vector<ParamSpec> specs{{.name = "wte", .shape = {16}, .own_unit = true}};
  for (int i = 0; i < kBlocks; ++i) specs.push_back({.name = fmt::format("h.{}.w", i), .shape = {kNumel}});
  return specs;
}

struct Hidden {
  double up = 0;  // hidden fraction of the link's busy seconds
  double down = 0;
  double both = 0;
};

// Statistics of the steps that have a schedule, on the rank that waited longest. A block computes for one second.
Hidden hidden_in(const StateFractions& fractions, double bytes_per_second) {
  AttachOptions options{.stage = 3};
  options.offload.fractions = fractions;
  options.offload.link_bytes_per_second = bytes_per_second;
  std::vector<LinkTraffic> ranks(kRanks);
  on_ranks(kRanks, [&](Communicator& comm) {
    SimulatedTime time;
    ScriptedModel model(comm, specs(), options, {.seams = {.link_clock = &time}});
    model.compute = [&time] { time.compute(1); };
    LinkTraffic& sum = ranks[static_cast<std::size_t>(comm.rank())];
    for (int step = 0; step < kSteps; ++step) {
      model.train(step);
      if (step >= 2) sum = sum + model.engine().report().link_per_step;
    }
  });
  const LinkTraffic& most = std::ranges::max(ranks, {}, &LinkTraffic::waited_seconds);
  const auto fraction = [](double busy, double waited) { return busy > 0 ? hidden_seconds(busy, waited) / busy : 1; };
  return {.up = fraction(most.up_busy_seconds, most.up_waited_seconds),
          .down = fraction(most.down_busy_seconds(), most.down_waited_seconds()),
          .both = fraction(most.busy_seconds, most.waited_seconds)};
}

struct Case {
  const char* name;
  StateFractions fractions;
  double bytes;  // over the link in a step, both ways
  int passes;    // passes during which they can run
  // The rate at which transfers take `times` as long as the computation of those passes.
  double rate(double times) const { return bytes / (times * passes * kBlocks); }
};

std::vector<Case> cases() {
  constexpr double kShards = 4.0 * kBlocks * kNumel / kRanks;
  return {
      // Gradients and parameters go down for the update. Parameters go up in the forward pass.
      {"optimizer", {.optimizer = {.host = 1}}, 3 * kShards, 1},
      // Gradients go down in the backward pass, parameters go up in the forward pass.
      {"everything", {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 1}}, 2 * kShards, 2},
  };
}

// The computation takes four times as long as the transfers.
TEST(Hiding, LongComputationHidesTransfers) {
  for (const Case& c : cases()) {
    const Hidden hidden = hidden_in(c.fractions, c.rate(0.25));
    EXPECT_GE(hidden.both, 0.9) << c.name << ": " << hidden.up << " up, " << hidden.down << " down";
  }
}

// Transfers take twenty times as long as the computation. The small hidden part runs while the rank waits for the other
// direction.
TEST(Hiding, LongTransfersStayVisible) {
  for (const Case& c : cases()) {
    const Hidden hidden = hidden_in(c.fractions, c.rate(20));
    EXPECT_LT(hidden.both, 0.4) << c.name << ": " << hidden.up << " up, " << hidden.down << " down";
  }
}

}  // namespace
}  // namespace zero
