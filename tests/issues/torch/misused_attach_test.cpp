// Misuse of attach() trained something else, or nothing, without a message. Examples: numbers out of range, a module
// that registers nothing, steps without a gradient, and modules whose buffers or parameters differ between ranks.
#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "zero/device/host_device.h"
#include "zero/torch/attach_host.h"

#include "tests/support/forwarded_device.h"
#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::TiedNet;
using Buffers = std::vector<ModelTensors::Buffer>;

// Expects that each of two ranks refuses attach() of `model(rank)`, at each stage.
void expect_refused(const std::function<ModelTensors(int rank)>& model, const AttachOptions& options,
                    const std::vector<std::string>& parts) {
  for (const AttachOptions& stage : tests::all_stages(options)) {
    SCOPED_TRACE(tests::placement_of(stage));
    std::vector<ModelTensors> models{model(0), model(1)};
    tests::on_every_rank(2, [&](World& ranks) {
      const std::string message =
          message_of<ConfigError>([&] { attach(models[static_cast<std::size_t>(ranks.rank())], ranks, stage); });
      for (const std::string& part : parts) EXPECT_TRUE(says(message, part));
    });
  }
}

ModelTensors with_buffers(Buffers buffers) {
  return {.parameters = {{.name = "w", .tensor = torch::ones({3}, torch::requires_grad())}},
          .buffers = std::move(buffers)};
}

// Main memory that calls itself unreadable.
class UnreadableDevice final : public ForwardedDevice {
 public:
  UnreadableDevice() : ForwardedDevice(HostDevice::instance()) {}
  bool host_readable() const override { return false; }
};

// A GPU has a real link.
TEST(MisusedAttach, DevicesRefuseSimulatedLinks) {
  tests::on_every_rank(1, [](World& ranks) {
    UnreadableDevice device;
    EngineHost host;
    host.device = &device;
    AttachOptions options;
    options.offload.link_bytes_per_second = 1e9;
    const std::string message = message_of<ConfigError>([&] { attach(with_buffers({}), ranks, options, host); });
    EXPECT_TRUE(says(message, "zero.link_bandwidth = 1"));
    EXPECT_TRUE(says(message, "a simulated link does not work"));
  });
}

TEST(MisusedAttach, GroupsNumbersAreChecked) {
  const auto model = [](int) { return with_buffers({}); };
  for (const double bad : {std::nan(""), -1.0}) {
    const auto takes_all = [](const ParamSpec&) { return true; };
    expect_refused(model, {.groups = {{.matches = takes_all, .lr_scale = bad}}}, {"groups[0].lr_scale = "});
    expect_refused(model, {.groups = {{.matches = takes_all, .weight_decay = bad}}}, {"groups[0].weight_decay = "});
  }
}

TEST(MisusedAttach, AStepsLimitsAreChecked) {
  auto nets = tests::tied_nets(2);
  tests::on_every_rank(2, [&](World& ranks) {
    TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks);
    loss_of(net, 0, 0, ranks.rank()).backward();
    EXPECT_TRUE(
        says(message_of<ConfigError>([&] { engine.step(0.1, {.max_loss = std::nan("")}); }), "limits.max_loss"));
    EXPECT_TRUE(
        says(message_of<ConfigError>([&] { engine.step(0.1, {.max_grad_norm = -1}); }), "limits.max_grad_norm) = -1"));
    EXPECT_EQ(engine.step(0.1).step, 1);
  });
}

struct ForgetfulNet : torch::nn::Module {
  torch::nn::Linear fc{3, 3};  // never registered
};

TEST(MisusedAttach, AModuleWithoutParametersIsRefused) {
  expect_refused([](int) { return tensors_of(ForgetfulNet()); }, {},
                 {"attach = 0 parameters: the module has no registered parameter", "register_module("});
}

TEST(MisusedAttach, NamesABufferOfAnotherType) {
  const auto model = [](int rank) {
    return with_buffers({{.name = "mean", .tensor = torch::ones({4})},
                         {.name = "count", .tensor = torch::ones({4}, rank == 0 ? torch::kFloat : torch::kInt)}});
  };
  expect_refused(model, {}, {"attach = count: rank 1 has count = [4] Int, and rank 0 has count = [4] Float"});
}

TEST(MisusedAttach, NamesABufferOfAnotherShape) {
  const auto shapes = [](int rank) {
    return with_buffers({{.name = "mean", .tensor = rank == 0 ? torch::ones({4, 2}) : torch::ones({2, 4})}});
  };
  expect_refused(shapes, {}, {"attach = mean: rank 1 has mean = [2, 4] Float, and rank 0 has mean = [4, 2] Float"});
  const auto names = [](int rank) {
    return with_buffers({{.name = rank == 0 ? "mean" : "average", .tensor = torch::ones({4})}});
  };
  expect_refused(names, {}, {"attach = average: rank 1 has average = [4] Float, and rank 0 has mean = [4] Float"});
  const auto numbers = [](int rank) {
    return with_buffers(rank == 0 ? Buffers{{.name = "mean", .tensor = torch::ones({4})}} : Buffers{});
  };
  expect_refused(numbers, {}, {"attach = mean: rank 1 has no such buffer, and rank 0 has mean = [4] Float"});
}

TEST(MisusedAttach, AnotherOrderOfParametersIsNamed) {
  const auto model = [](int rank) {
    std::vector<ModelTensors::Parameter> parameters{{.name = "a", .tensor = torch::ones({3}, torch::requires_grad())},
                                                    {.name = "b", .tensor = torch::ones({3}, torch::requires_grad())},
                                                    {.name = "c", .tensor = torch::ones({3}, torch::requires_grad())}};
    if (rank == 1) std::swap(parameters[1], parameters[2]);
    return ModelTensors{.parameters = parameters};
  };
  expect_refused(model, {}, {"rank 1: differs from rank 0's: parameter 1 (from 0) is c, not b"});
}

// Runs in its own process, whose log shows warnings in any environment.
TEST(MisusedAttach, AStepWithoutGradientsWarnsOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto two_idle_steps = [] {
    ::setenv("ZERO_LOG_LEVEL", "warn", 1);
    for (const AttachOptions& stage : tests::all_stages({})) {
      auto nets = tests::tied_nets(2);
      tests::on_every_rank(2, [&](World& ranks) {
        TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
        Engine engine = attach(net, ranks, stage);
        loss_of(net, 0, 0, ranks.rank()).backward();
        engine.step();
        engine.step();
        engine.step();
      });
    }
    std::exit(0);
  };
  // One line for each of the five placements, and no sixth. Each rank also reports that the step differs from the
  // recorded one.
  const std::string line =
      "(zero: warning: this step differs[^\n]*\n)*"
      "zero: warning: step 2 updates nothing: no parameter has a gradient on any rank[^\n]*\n";
  EXPECT_EXIT(two_idle_steps(), testing::ExitedWithCode(0), "^" + line + line + line + line + line + "$");
}

}  // namespace
}  // namespace zero
