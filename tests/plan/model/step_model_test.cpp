#include "zero/plan/model/step_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/plan/schedule/schedule.h"

#include "tests/plan/one_unit.h"
#include "tests/support/fp32_states.h"

namespace zero {
namespace {

// Each resource has its own rate, in elements of 1 byte a second: 2 up, 4 down, 8 read, 16 written.
constexpr TierRates kRates{.link_up = 2, .link_down = 4, .requests = {.disk = {.read = 8, .write = 16}}};
constexpr std::int64_t kNumel = 1 << 14;

StepModel model_of(DType dtype, int stage, int accumulate = 1) {
  return {.units = {one_unit(kNumel, dtype)}, .placement = place(stage, Reduce::kAuto, accumulate), .rates = kRates};
}

UnitTiers on_device() {
  return {{.device = kNumel}, {.device = kNumel}, {.device = kNumel}};
}

double busy(const PredictedStep& step, StepPhase phase, Resource resource) {
  return step.busy[static_cast<std::size_t>(phase)][static_cast<std::size_t>(resource)];
}

// Seconds an element in one phase. Reading and writing add up, because the share is 1.
struct Busy {
  double up = 0, down = 0, read = 0, written = 0;
};
void expect_busy(const PredictedStep& step, StepPhase phase, Busy element) {
  const double numel = kNumel;
  EXPECT_DOUBLE_EQ(busy(step, phase, Resource::kLinkUp), element.up * numel) << name_of(phase);
  EXPECT_DOUBLE_EQ(busy(step, phase, Resource::kLinkDown), element.down * numel) << name_of(phase);
  EXPECT_DOUBLE_EQ(busy(step, phase, reads_of(Tier::kDisk)), element.read * numel) << name_of(phase);
  EXPECT_DOUBLE_EQ(busy(step, phase, writes_of(Tier::kDisk)), element.written * numel) << name_of(phase);
  EXPECT_DOUBLE_EQ(busy(step, phase, requests_of(Tier::kDisk)), (element.read + element.written) * numel)
      << name_of(phase);
}
void expect_busy(const PredictedStep& step, Busy forward, Busy backward, Busy update) {
  expect_busy(step, StepPhase::kForward, forward);
  expect_busy(step, StepPhase::kBackward, backward);
  expect_busy(step, StepPhase::kUpdate, update);
}

TEST(StepModel, GathersAreCountedByPass) {
  const auto gather = [](int unit) { return Action{ActionKind::kGather, unit}; };
  const Schedule schedule{.entries = {{{EventKind::kAccess, 0}, {gather(0), gather(1)}},
                                      {{EventKind::kBackward}, {gather(1)}},
                                      {{EventKind::kEndBackward}, {gather(1)}},  // access in the next micro-batch
                                      {{EventKind::kAccess, 0}, {{ActionKind::kRelease, 0}, gather(0)}},
                                      {{EventKind::kBackward}, {{ActionKind::kReduce, 1}}}},
                          .step = {gather(0)}};
  StepProfile profile;
  count_gathers(schedule, 3, profile);
  EXPECT_EQ(profile.forward_gathers, (std::vector{2, 1, 0}));
  EXPECT_EQ(profile.backward_gathers, (std::vector{0, 2, 0})) << "gathers after the pass belong to it";
  EXPECT_FALSE(profile.min_budget);
  count_gathers({.budget = {GatherBudget::kMin}}, 3, profile);
  EXPECT_TRUE(profile.min_budget);
}

TEST(StepModel, OnDeviceOnlyArithmeticTakesTime) {
  for (int stage = 0; stage <= 3; ++stage) {
    StepModel model = model_of(DType::kFloat32, stage);
    model.profile = {.forward_seconds = 1, .backward_seconds = 2};
    model.rates.update_numel = kNumel / 4.0;
    const PredictedStep step = predict(model, {on_device()});
    expect_busy(step, {}, {}, {});
    EXPECT_DOUBLE_EQ(step.seconds(StepPhase::kUpdate), 4);
    EXPECT_DOUBLE_EQ(step.total(), 7) << stage;
    EXPECT_EQ(step.bound(), Resource::kUpdate);
  }
}

// Three units of kNumel fp32 elements with gradients on disk: 4 bytes an element, 16 written a second.
StepModel three_that_offload(std::vector<double> gradient_at) {
  StepModel model = model_of(DType::kFloat32, 3);
  model.units = {one_unit(kNumel, DType::kFloat32, 0), one_unit(kNumel, DType::kFloat32, 1),
                 one_unit(kNumel, DType::kFloat32, 2)};
  model.rates = {.requests = {.disk = {.write = 16}}};
  model.profile = {.backward_seconds = 2 * kNumel, .gradient_at = std::move(gradient_at)};
  return model;
}
double backward_of_offloads(const StepModel& model) {
  UnitTiers tiers = on_device();
  tiers.gradient = {.disk = kNumel};
  return predict(model, {tiers, tiers, tiers}).seconds(StepPhase::kBackward) / kNumel;
}

TEST(StepModel, LastOffloadFollowsComputation) {
  // Seconds an element: the offload of a unit takes 0.25, the pass 2.
  EXPECT_DOUBLE_EQ(backward_of_offloads(three_that_offload({})), 2) << "the times of gradients are unknown";
  EXPECT_DOUBLE_EQ(backward_of_offloads(three_that_offload({1, 0.6, 0.3})), 2.25);
  EXPECT_DOUBLE_EQ(backward_of_offloads(three_that_offload({1, 0.95, 0.3})), 1.9 + 0.5) << "two wait for each other";
  EXPECT_DOUBLE_EQ(backward_of_offloads(three_that_offload({1, 1, 1})), 2.75);
  EXPECT_DOUBLE_EQ(backward_of_offloads(three_that_offload({0.5, 0.5, 0.5})), 2) << "1.75 is hidden";
  StepModel model = three_that_offload({1, 1, 1});
  model.units[0].trainable = false;
  UnitTiers offloaded = on_device();
  offloaded.gradient = {.disk = kNumel};
  EXPECT_DOUBLE_EQ(predict(model, {on_device(), offloaded, offloaded}).seconds(StepPhase::kBackward) / kNumel, 2.5);
}

TEST(StepModel, MinBudgetHidesNoFetch) {
  StepModel model = three_that_offload({});
  model.rates = {.requests = {.disk = {.read = 16}}};
  model.profile = {.forward_seconds = kNumel, .backward_seconds = 2 * kNumel};
  UnitTiers on_disk = on_device();
  on_disk.parameter = {.disk = kNumel};
  const auto seconds = [&](StepPhase phase) {
    return predict(model, {on_disk, on_disk, on_device()}).seconds(phase) / kNumel;
  };
  EXPECT_DOUBLE_EQ(seconds(StepPhase::kBackward), 2) << "two of a quarter come beside the pass";
  model.profile.min_budget = true;
  EXPECT_DOUBLE_EQ(seconds(StepPhase::kBackward), 2 + 2 * 0.25);
  EXPECT_DOUBLE_EQ(seconds(StepPhase::kForward), 1) << "they come with their update";
  model.rates.link_up = 8;
  EXPECT_DOUBLE_EQ(seconds(StepPhase::kForward), 1 + 2 * 0.5) << "over a link they do not";
}

TEST(StepModel, FirstFetchPrecedesComputation) {
  StepModel model = three_that_offload({});
  model.rates = {.link_up = 8, .requests = {.disk = {.read = 16}}};
  model.profile = {.forward_seconds = 2 * kNumel, .used_at = {0, 0.05, 0.6}};
  UnitTiers on_disk = on_device(), on_host = on_device();
  on_disk.parameter = {.disk = kNumel};
  on_host.parameter = {.host = kNumel};
  const PredictedStep read = predict(model, {on_disk, on_disk, on_disk});
  EXPECT_DOUBLE_EQ(read.seconds(StepPhase::kForward) / kNumel, 0.95 * 2 + 2 * 0.5) << "a link of half the rate";
  EXPECT_EQ(read.bound(StepPhase::kForward), Resource::kLinkUp);
  EXPECT_DOUBLE_EQ(predict(model, {on_host, on_device(), on_device()}).seconds(StepPhase::kForward) / kNumel, 2.5);
  const PredictedStep last = predict(model, {on_device(), on_device(), on_host});
  EXPECT_DOUBLE_EQ(last.seconds(StepPhase::kForward) / kNumel, 2) << "hidden behind the others";
  EXPECT_EQ(last.bound(StepPhase::kForward), Resource::kCompute);
  EXPECT_DOUBLE_EQ(last.total(), last.seconds(StepPhase::kForward) + last.seconds(StepPhase::kBackward) +
                                     last.seconds(StepPhase::kUpdate));
}

// Three units of kNumel fp32 elements with moments on disk. Seconds an element: the update of a unit takes 1, the pass
// 2.
StepModel three_that_update(int stage, std::vector<double> used_at, int accumulate = 1) {
  StepModel model = model_of(DType::kFloat32, stage, accumulate);
  model.units = {one_unit(kNumel, DType::kFloat32, 0), one_unit(kNumel, DType::kFloat32, 1),
                 one_unit(kNumel, DType::kFloat32, 2)};
  model.rates = {.requests = {.disk = {.read = 16, .write = 16}}};
  model.profile = {.forward_seconds = 2 * kNumel, .used_at = std::move(used_at)};
  return model;
}
double update_on_disk(const StepModel& model) {
  UnitTiers tiers = on_device();
  tiers.optimizer = {.disk = kNumel};
  const PredictedStep step = predict(model, {tiers, tiers, tiers});
  EXPECT_DOUBLE_EQ(step.seconds(StepPhase::kForward) / kNumel, 2);
  EXPECT_EQ(step.bound(StepPhase::kUpdate), requests_of(Tier::kDisk));
  return step.seconds(StepPhase::kUpdate) / kNumel;
}

TEST(StepModel, ShardedUpdateOverlapsForwardPass) {
  EXPECT_DOUBLE_EQ(update_on_disk(three_that_update(2, {0, 0.25, 0.6})), 3) << "unsharded parameters: no overlap";
  EXPECT_DOUBLE_EQ(update_on_disk(three_that_update(3, {})), 1) << "the times of updates are unknown";
  EXPECT_DOUBLE_EQ(update_on_disk(three_that_update(3, {0, 0.25, 0.6})), 1.8)
      << "work after the last unit is not hidden";
  EXPECT_DOUBLE_EQ(update_on_disk(three_that_update(3, {0, 1, 1})), 1) << "the first is not hidden";
  EXPECT_DOUBLE_EQ(update_on_disk(three_that_update(3, {1, 1, 0})), 1) << "whichever it is";
  EXPECT_DOUBLE_EQ(update_on_disk(three_that_update(3, {0, 0, 0})), 3);
  EXPECT_NEAR(update_on_disk(three_that_update(3, {0, 0.25, 0.6}, 2)), 2.4, 1e-9) << "before the first of two passes";
}

// The update's arithmetic does not overlap with computation on the same cores.
TEST(StepModel, UpdateArithmeticNeverOverlapsOwnCores) {
  StepModel model = three_that_update(3, {0, 0.5, 1});
  model.rates.update_numel = 6;
  const UnitTiers tiers = on_device();
  EXPECT_DOUBLE_EQ(predict(model, {tiers, tiers, tiers}).seconds(StepPhase::kUpdate) / kNumel, 0.5);
  model.rates.device_update_numel = 3;
  UnitTiers on_host = on_device();
  on_host.optimizer = {.host = kNumel};
  EXPECT_DOUBLE_EQ(predict(model, {on_host, tiers, tiers}).seconds(StepPhase::kUpdate) / kNumel, 2.0 / 3)
      << "the host's third is hidden, the device's thirds are not";
}

TEST(StepModel, ForeignProfileIsOurBug) {
  StepModel model = three_that_offload({1});
  EXPECT_THROW(predict(model, {on_device(), on_device(), on_device()}), InternalError);
}

TEST(StepModel, HostParameterIsFetchedPerGather) {
  UnitTiers tiers = on_device();
  tiers.parameter = {.host = kNumel};
  // bf16: the parameter is updated on the device and goes down as 2 bytes. The update reads nothing from the host.
  expect_busy(predict(model_of(DType::kBFloat16, 3), {tiers}), {.up = 2 / 2.0}, {.up = 2 / 2.0}, {.down = 2 / 4.0});
  // fp32: the parameter is its own master, so the update also reads it.
  expect_busy(predict(model_of(DType::kFloat32, 3), {tiers}), {.up = 4 / 2.0}, {.up = 4 / 2.0},
              {.up = 4 / 2.0, .down = 4 / 4.0});
}

TEST(StepModel, ProfileGivesGatherCount) {
  UnitTiers tiers = on_device();
  tiers.parameter = {.host = kNumel};
  StepModel model = model_of(DType::kBFloat16, 3);
  model.profile.forward_gathers = {3};
  model.profile.backward_gathers = {0};
  expect_busy(predict(model, {tiers}), {.up = 3 * 2 / 2.0}, {}, {.down = 2 / 4.0});
}

TEST(StepModel, EveryMicroBatchGathersWithoutProfile) {
  UnitTiers tiers = on_device();
  tiers.parameter = {.host = kNumel};
  expect_busy(predict(model_of(DType::kFloat32, 3, 2), {tiers}), {.up = 2 * 4 / 2.0}, {.up = 2 * 4 / 2.0},
              {.up = 4 / 2.0, .down = 4 / 4.0});
}

// Each gather reads the parameter, and the update reads and writes it, whatever its type.
TEST(StepModel, DiskParameterIsReadAndWritten) {
  UnitTiers tiers = on_device();
  tiers.parameter = {.disk = kNumel};
  tiers.optimizer = {.host = kNumel};
  tiers.gradient = {.host = kNumel};
  const Busy gather{.up = 2 / 2.0, .read = 2 / 8.0};
  const Busy offload{.up = gather.up, .down = 2 / 4.0, .read = gather.read};
  expect_busy(predict(model_of(DType::kBFloat16, 3), {tiers}), gather, offload, {.read = 2 / 8.0, .written = 2 / 16.0});
  const Busy fp32_gather{.up = 4 / 2.0, .read = 4 / 8.0};
  expect_busy(predict(model_of(DType::kFloat32, 3), {tiers}), fp32_gather,
              {.up = 4 / 2.0, .down = 4 / 4.0, .read = 4 / 8.0}, {.read = 4 / 8.0, .written = 4 / 16.0});
}

TEST(StepModel, HostUpdateTakesShardedParameter) {
  UnitTiers tiers = on_device();
  tiers.gradient = {.host = kNumel};
  tiers.optimizer = {.host = kNumel};
  expect_busy(predict(model_of(DType::kBFloat16, 3), {tiers}), {}, {.down = 2 / 4.0}, {.up = 2 / 2.0, .down = 2 / 4.0});
}

TEST(StepModel, HostGradientCrossesInBackwardOnly) {
  UnitTiers tiers = on_device();
  tiers.gradient = {.host = kNumel};
  tiers.optimizer = {.host = kNumel};
  // The update runs on the host: the new parameter crosses up.
  expect_busy(predict(model_of(DType::kBFloat16, 2), {tiers}), {}, {.down = 2 / 4.0}, {.up = 2 / 2.0});
}

TEST(StepModel, DeviceUpdateFetchesHostGradient) {
  UnitTiers tiers = on_device();
  tiers.gradient = {.host = kNumel};
  expect_busy(predict(model_of(DType::kBFloat16, 2), {tiers}), {}, {.down = 2 / 4.0}, {.up = 2 / 2.0});
}

// The backward pass writes the gradient, and the update reads it.
TEST(StepModel, DiskGradientIsWrittenThenRead) {
  UnitTiers tiers = on_device();
  tiers.gradient = {.disk = kNumel};
  tiers.optimizer = {.host = kNumel};
  expect_busy(predict(model_of(DType::kFloat32, 2), {tiers}), {}, {.down = 4 / 4.0, .written = 4 / 16.0},
              {.up = 4 / 2.0, .down = 4 / 4.0, .read = 4 / 8.0});
}

// Each later micro-batch reads the sum so far.
TEST(StepModel, MicroBatchesContinueFromSum) {
  UnitTiers tiers = on_device();
  tiers.gradient = {.disk = kNumel};
  tiers.optimizer = {.host = kNumel};
  const Busy backward{.up = 2 * 4 / 2.0, .down = 3 * 4 / 4.0, .read = 2 * 4 / 8.0, .written = 3 * 4 / 16.0};
  expect_busy(predict(model_of(DType::kFloat32, 2, 3), {tiers}), {}, backward,
              {.up = 4 / 2.0, .down = 4 / 4.0, .read = 4 / 8.0});
  // bf16 gradients are summed in fp32 and rounded once. The rounding reads and writes the sum.
  expect_busy(predict(model_of(DType::kBFloat16, 2, 3), {tiers}), {}, backward,
              {.up = 2 / 2.0, .read = 2 * 4 / 8.0, .written = 4 / 16.0});
}

TEST(StepModel, HostMomentsUpdateOnHost) {
  for (int stage = 0; stage <= 2; ++stage) {
    UnitTiers tiers = on_device();
    tiers.optimizer = {.host = kNumel};
    // bf16: gradient down, parameter up: 4 bytes a parameter, as in ZeRO-Offload.
    expect_busy(predict(model_of(DType::kBFloat16, stage), {tiers}), {}, {}, {.up = 2 / 2.0, .down = 2 / 4.0});
    expect_busy(predict(model_of(DType::kFloat32, stage), {tiers}), {}, {}, {.up = 4 / 2.0, .down = 8 / 4.0});
  }
}

TEST(StepModel, DiskMomentsAreReadAndWritten) {
  UnitTiers tiers = on_device();
  tiers.optimizer = {.disk = kNumel};
  expect_busy(predict(model_of(DType::kBFloat16, 1), {tiers}), {}, {},
              {.up = 2 / 2.0, .down = 2 / 4.0, .read = 12 / 8.0, .written = 12 / 16.0});
  StepModel one_moment = model_of(DType::kFloat32, 1);
  one_moment.optimizer = fp32_states(1);
  expect_busy(predict(one_moment, {tiers}), {}, {},
              {.up = 4 / 2.0, .down = 8 / 4.0, .read = 4 / 8.0, .written = 4 / 16.0});
}

TEST(StepModel, RuleWithSumsReadsTwice) {
  UnitTiers tiers = on_device();
  tiers.optimizer = {.disk = kNumel};
  StepModel twice = model_of(DType::kFloat32, 1);
  twice.optimizer.num_reads = 2;
  expect_busy(predict(twice, {tiers}), {}, {},
              {.up = 4 / 2.0, .down = 16 / 4.0, .read = 16 / 8.0, .written = 8 / 16.0});
}

// Moments on disk: reading takes 1.5 seconds an element, writing 0.75.
PredictedStep update_with_share(double disk_share, double disk_write = 16) {
  StepModel model = model_of(DType::kBFloat16, 1);
  model.rates = {.requests = {.disk = {.read = 8, .write = disk_write, .share = disk_share}}};
  UnitTiers tiers = on_device();
  tiers.optimizer = {.disk = kNumel};
  return predict(model, {tiers});
}

// The time is the share times the sum of reading and writing, or the longer of the two.
TEST(StepModel, MixedIoTakesShareOrLonger) {
  const auto expect = [](const PredictedStep& step, double seconds, Resource bound) {
    EXPECT_DOUBLE_EQ(step.seconds(StepPhase::kUpdate) / kNumel, seconds);
    EXPECT_EQ(step.bound(StepPhase::kUpdate), bound);
    EXPECT_EQ(step.bound(), bound);
  };
  expect(update_with_share(0.5), 1.5, reads_of(Tier::kDisk));
  expect(update_with_share(0.5, 4), 3, writes_of(Tier::kDisk));
  expect(update_with_share(0.8), 0.8 * 2.25, requests_of(Tier::kDisk));
  expect(update_with_share(1), 2.25, requests_of(Tier::kDisk));
  expect(update_with_share(1.2), 1.2 * 2.25, requests_of(Tier::kDisk));
  // Reading, writing and their share take equally long.
  expect(update_with_share(0.5, 8), 1.5, requests_of(Tier::kDisk));
}

TEST(StepModel, PassEndsReadOrWriteOnly) {
  // The forward pass of 2 begins after 0.5 of reading. 0.25 of writing follows the backward pass of 2.
  StepModel model = three_that_offload({1, 0.5, 0.5});
  model.rates = {.requests = {.disk = {.read = 8, .write = 16, .share = 0.5}}};
  model.profile.forward_seconds = 2 * kNumel;
  model.profile.used_at = {0, 0.5, 0.5};
  UnitTiers first = on_device();
  first.parameter = first.gradient = {.disk = kNumel};
  const PredictedStep step = predict(model, {first, on_device(), on_device()});
  EXPECT_DOUBLE_EQ(step.seconds(StepPhase::kForward) / kNumel, 2.5);
  EXPECT_DOUBLE_EQ(step.seconds(StepPhase::kBackward) / kNumel, 2.25);
  for (const StepPhase phase : {StepPhase::kForward, StepPhase::kBackward})
    EXPECT_EQ(step.bound(phase), Resource::kCompute) << "most of it: " << name_of(phase);
}

TEST(StepModel, OnlySplitPartsCrossTheLink) {
  UnitTiers tiers = on_device();
  tiers.gradient = {.device = kNumel / 2, .host = kNumel / 2};
  tiers.optimizer = {.device = kNumel / 4, .host = kNumel / 2, .disk = kNumel / 4};
  // A quarter of the elements has its gradient on the device and its moments on other tiers. Three quarters get a
  // parameter back.
  expect_busy(predict(model_of(DType::kBFloat16, 2), {tiers}), {}, {.down = 0.5 * 2 / 4.0},
              {.up = 0.75 * 2 / 2.0, .down = 0.25 * 2 / 4.0, .read = 0.25 * 12 / 8.0, .written = 0.25 * 12 / 16.0});
}

TEST(StepModel, WholeStateUpdatesByShards) {
  // Two ranks at stage 1: parameter and gradient are whole, and each rank updates one half.
  StepModel model = model_of(DType::kBFloat16, 1);
  model.world = 2;
  UnitTiers tiers = on_device();
  tiers.optimizer = {.host = kNumel / 2};
  expect_busy(predict(model, {tiers}), {}, {}, {.up = 0.5 * 2 / 2.0, .down = 0.5 * 2 / 4.0});
}

TEST(StepModel, AFrozenUnitIsOnlyFetched) {
  StepModel model = model_of(DType::kBFloat16, 3);
  model.units[0].trainable = false;
  model.rates.update_numel = 1;
  expect_busy(predict(model, {{.parameter = {.disk = kNumel}}}), {.up = 2 / 2.0, .read = 2 / 8.0},
              {.up = 2 / 2.0, .read = 2 / 8.0}, {});
  EXPECT_EQ(predict(model, {{.parameter = {.disk = kNumel}}}).seconds(StepPhase::kUpdate), 0);
}

TEST(StepModel, DeviceCoresUpdateBesideHost) {
  StepModel model = model_of(DType::kBFloat16, 1);
  model.rates = {.update_numel = kNumel / 8.0, .device_update_numel = kNumel};
  UnitTiers tiers = on_device();
  tiers.optimizer = {.device = kNumel / 2, .host = kNumel / 4, .disk = kNumel / 4};
  const PredictedStep step = predict(model, {tiers});
  EXPECT_DOUBLE_EQ(busy(step, StepPhase::kUpdate, Resource::kCompute), 0.5);
  EXPECT_DOUBLE_EQ(busy(step, StepPhase::kUpdate, Resource::kUpdate), 4);
  model.rates.device_update_numel = 0;
  EXPECT_DOUBLE_EQ(predict(model, {tiers}).seconds(StepPhase::kUpdate), 8) << "the host's cores do it all";
}

TEST(StepModel, ZeroRateIsInfinitelyFast) {
  StepModel model = model_of(DType::kBFloat16, 3);
  model.rates = {};
  const UnitTiers tiers{{.disk = kNumel}, {.disk = kNumel}, {.disk = kNumel}};
  EXPECT_EQ(predict(model, {tiers}).total(), 0);
}

TEST(StepModel, BusiestResourceBoundsPhase) {
  PredictedStep step;
  step.busy[0] = {1, 3, 0, 2};
  step.busy[1] = {4, 0, 3, 1};
  step.busy[2] = {0, 2, 0, 1};
  EXPECT_EQ(step.seconds(StepPhase::kForward), 3);
  EXPECT_EQ(step.bound(StepPhase::kForward), Resource::kLinkUp);
  EXPECT_EQ(step.bound(StepPhase::kBackward), Resource::kCompute);
  EXPECT_EQ(step.total(), 9);
  EXPECT_EQ(step.bound(), Resource::kLinkUp) << "3 and 2 seconds, against 4 of compute";
}

// One phase is bound by reading and another by writing. Their step is bound by the disk.
TEST(StepModel, ReadsAndWritesShareOneBound) {
  PredictedStep step;
  step.busy[0] = {3, 0, 0, 1, 2};
  step.busy[1] = {0, 0, 0, 1, 2};
  step.busy[2] = {0, 0, 0, 1, 0, 2};
  EXPECT_EQ(step.bound(StepPhase::kBackward), reads_of(Tier::kDisk));
  EXPECT_EQ(step.bound(StepPhase::kUpdate), writes_of(Tier::kDisk));
  EXPECT_EQ(step.bound(), requests_of(Tier::kDisk)) << "4 seconds, against 3 of compute";
  step.busy[0] = {};
  step.busy[2] = {};
  EXPECT_EQ(step.bound(), reads_of(Tier::kDisk));
}

// Computation bounds the part of a pass that its reads and writes at the ends leave.
TEST(StepModel, ComputationBoundsRestOfPass) {
  PredictedStep step;
  step.busy[0] = {10, 0, 0, 2};
  step.ends.push_back({.phase = StepPhase::kForward, .resource = requests_of(Tier::kDisk), .apart = 1, .seconds = 1});
  step.busy[2] = {0, 0, 0, 4};
  EXPECT_EQ(step.seconds(StepPhase::kForward), 11);
  EXPECT_EQ(step.bound(StepPhase::kForward), Resource::kCompute) << "9 of its 11 seconds";
  EXPECT_EQ(step.bound(), Resource::kCompute) << "9 of 15 seconds, the disk's are 2 and 4";
}

TEST(StepModel, DiskBoundPhasesBindStep) {
  PredictedStep step;
  step.busy[0] = {4, 0, 0, 6};  // no transfer overlaps
  step.busy[1] = {8, 0, 0, 9};
  for (const StepPhase phase : {StepPhase::kForward, StepPhase::kBackward}) {
    const auto& busy = step.busy[static_cast<std::size_t>(phase)];
    step.ends.push_back({.phase = phase, .resource = requests_of(Tier::kDisk), .apart = 1, .seconds = busy[3]});
  }
  EXPECT_EQ(step.total(), 27);
  EXPECT_EQ(step.bound(StepPhase::kForward), requests_of(Tier::kDisk));
  EXPECT_EQ(step.bound(StepPhase::kBackward), requests_of(Tier::kDisk));
  EXPECT_EQ(step.bound(), requests_of(Tier::kDisk)) << "15 of 27 seconds";
  step.busy[1][0] = 10;
  EXPECT_EQ(step.bound(StepPhase::kBackward), Resource::kCompute) << "the busiest resource is the bound";
}

TEST(StepModel, ResourcesAndPhasesHaveNames) {
  EXPECT_EQ(name_of(Resource::kCompute), "compute");
  EXPECT_EQ(name_of(Resource::kUpdate), "update");
  EXPECT_EQ(name_of(requests_of(Tier::kDisk)), "disk");
  EXPECT_EQ(name_of(reads_of(Tier::kDisk)), "disk read");
  EXPECT_EQ(name_of(writes_of(Tier::kDisk)), "disk write");
  EXPECT_EQ(name_of(StepPhase::kBackward), "backward");
}

// Tiers of another model's units are a bug.
TEST(StepModel, ForeignTiersAreBug) {
  EXPECT_THROW(predict(model_of(DType::kFloat32, 1), {}), InternalError);
  StepModel model = model_of(DType::kFloat32, 3);
  model.units[0].index = 1;
  model.profile.forward_gathers = {1};
  EXPECT_THROW(predict(model, {on_device()}), InternalError);
}

// More bytes on a slower tier never make a step shorter, unless the host's cores take over a device's work.
RC_GTEST_PROP(StepModel, MovingToDiskNeverSpeedsUp, ()) {
  const auto split = [] {
    const auto device = *rc::gen::inRange<std::int64_t>(0, 5) * kNumel / 4;
    const auto host = *rc::gen::inRange<std::int64_t>(0, 5) * (kNumel - device) / 4;
    return TierSplit{.device = device, .host = host, .disk = kNumel - device - host};
  };
  StepModel model = model_of(*rc::gen::element(DType::kFloat32, DType::kBFloat16), 3, *rc::gen::inRange(1, 4));
  model.rates.update_numel = 1000;
  UnitTiers tiers{split(), split(), split()};
  const double before = predict(model, {tiers}).total();
  const auto state = *rc::gen::element(&UnitTiers::parameter, &UnitTiers::gradient, &UnitTiers::optimizer);
  (tiers.*state).disk += std::exchange((tiers.*state).host, 0);
  RC_ASSERT(predict(model, {tiers}).total() >= before);
}

}  // namespace
}  // namespace zero
