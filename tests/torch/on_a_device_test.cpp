// A module on a device that the host cannot read. The engine uses its GPU paths over main memory.
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/device/host_device.h"
#include "zero/device/open_device.h"
#include "zero/torch/activations/activation_store_shared.h"
#include "zero/torch/activations/checkpoint.h"
#include "zero/torch/deferred/deferred.h"

#include "tests/support/expect_contains.h"
#include "tests/support/forwarded_device.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::RunResult;
using tests::same_bits;
using tests::tied_net;
using tests::train;

// Main memory that claims not to be readable by the host. Operators can read it; the engine stages its own reads.
class FarMemory final : public ForwardedDevice {
 public:
  explicit FarMemory(std::string_view name = "far") : ForwardedDevice(HostDevice::instance()), name_(name) {}
  std::string_view name() const override { return name_; }
  bool host_readable() const override { return false; }

 private:
  std::string_view name_;
};

TEST(ModuleOnADevice, TrainsWithTheHostsBits) {
  FarMemory far;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const AttachOptions options{.optimizer = AdamW{.lr = 1e-2}, .clip = 0.5, .accumulate = 2, .dtype = dtype};
    for (const AttachOptions& stage : all_stages(options)) {
      const RunResult here = train(2, 3, stage, tied_net), there = train(2, 3, stage, tied_net, 1e-2, {.device = &far});
      EXPECT_EQ(here.loss_bits, there.loss_bits) << tests::placement_of(stage);
      EXPECT_EQ(here.grad_norms, there.grad_norms) << tests::placement_of(stage);
      EXPECT_TRUE(same_bits(here.parameters, there.parameters)) << tests::placement_of(stage);
      EXPECT_TRUE(same_bits(here.given_back, there.given_back)) << tests::placement_of(stage);
    }
  }
}

// Blocks with activation checkpoints. `tier`: the tier of their inputs; absent: they stay on the device.
tests::MakeSubject checkpointed(std::optional<Tier> tier, const TemporaryFolder& folder,
                                std::vector<std::shared_ptr<ActivationStore>>& stores) {
  return [=, &folder, &stores] {
    auto net = std::make_shared<tests::TiedNet>();
    const ActivationOffloadOptions options{.tier = tier.value_or(Tier::kHost), .disk = {folder.path()}};
    const auto store = tier ? std::make_shared<ActivationStore>(options) : nullptr;
    if (store) stores.push_back(store);
    const auto loss = [net, store](int step, int micro, int rank) {
      const torch::Tensor tokens = tests::tokens_of(step, micro, rank);
      torch::Tensor x = net->table(tokens);
      for (int turn = 0; turn < 4; ++turn) {
        for (std::size_t i = 0; i < net->blocks->size(); ++i) {
          const auto run = [&net = *net, i](const std::vector<torch::Tensor>& in) {
            return net.block(i).forward(in[0]) * in[1];
          };
          x = checkpoint(run, {x, net->scale}, store ? store->checkpoint_options() : CheckpointOptions{});
        }
      }
      return tests::next_token_loss(torch::matmul(x, net->table->weight.t()), tokens);
    };
    return tests::Subject{net, loss, store};
  };
}

TEST(ModuleOnADevice, OffloadedActivationsKeepBits) {
  const TemporaryFolder folder;
  FarMemory far;
  std::vector<std::shared_ptr<ActivationStore>> stores;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const AttachOptions& stage : all_stages({.accumulate = 2, .dtype = dtype})) {
      const RunResult stay = train(2, 2, stage, checkpointed({}, folder, stores), 1e-2, {.device = &far});
      for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
        stores.clear();
        const RunResult leave = train(2, 2, stage, checkpointed(tier, folder, stores), 1e-2, {.device = &far});
        EXPECT_EQ(leave.loss_bits, stay.loss_bits) << tests::placement_of(stage);
        EXPECT_EQ(leave.grad_norms, stay.grad_norms) << tests::placement_of(stage);
        EXPECT_TRUE(same_bits(leave.parameters, stay.parameters)) << tests::placement_of(stage);
        for (const std::shared_ptr<ActivationStore>& store : stores) {
          const ActivationReport report = store->report();
          EXPECT_GT(report.activation_offload.link.down_bytes, 0);
          EXPECT_GT(report.activation_offload.link.up_bytes, 0);
          EXPECT_EQ(report.activation_offload.bytes, 0) << "all came back";
          EXPECT_GT(report.peak.device[MemoryTag::kStaging], 0);
        }
      }
    }
  }
}

TEST(ModuleOnADevice, StoreKeepsDeviceAfterEngine) {
  std::unique_ptr<ActivationStore> store = std::make_unique<ActivationStore>(ActivationOffloadOptions{});
  const torch::Tensor x = torch::ones({100}).requires_grad_();
  torch::Tensor y;
  {
    auto far = std::make_shared<FarMemory>();
    store->shared().come_from(far);
    y = checkpoint([](const std::vector<torch::Tensor>& in) { return in[0].exp(); }, {x * 2},
                   store->checkpoint_options());
    store.reset();
  }
  y.sum().backward();
  EXPECT_EQ(x.grad()[0].item<double>(), 2 * torch::full({}, 2.0F).exp().item<double>());
}

// Operators find parameters at multiples of 256 bytes at every stage.
TEST(ModuleOnADevice, OperatorsFindAlignedParameters) {
  FarMemory far;
  for (const int world : {1, 2, 3}) {
    for (const AttachOptions& stage : all_stages({.dtype = DType::kBFloat16})) {
      tests::on_every_rank(world, [&](World& ranks) {
        const tests::Subject subject = tied_net();
        Engine engine = attach(tensors_of(*subject.module), ranks, stage, {.device = &far});
        for (int step = 0; step < 2; ++step) {
          engine.scaled(subject.loss(step, 0, ranks.rank())).backward();
          engine.step(1e-2);
          const auto scope = engine.gathered(*subject.module);
          for (const auto& parameter : subject.module->named_parameters())
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parameter.value().const_data_ptr()) % 256, 0U)
                << parameter.key() << ", " << tests::placement_of(stage) << ", " << world;
        }
      });
    }
  }
}

// Another device places parameters elsewhere in their units. A checkpoint finds them by name.
TEST(ModuleOnADevice, CheckpointContinuesElsewhere) {
  FarMemory far;
  const TemporaryFolder folder;
  const auto path = [&folder](bool on_device, int stage, int world) {
    return folder.path() / (std::string(on_device ? "device" : "host") + std::to_string(stage) + std::to_string(world));
  };
  using Values = std::vector<torch::Tensor>;
  // Trains two steps or loads `from`, then trains two more steps. Returns the last weights.
  const auto run = [&](bool on_device, int world, int stage, const std::filesystem::path& from,
                       const std::filesystem::path& to) {
    Values weights;
    tests::on_every_rank(world, [&](World& ranks) {
      torch::manual_seed(3);
      const tests::Subject subject = tied_net();
      const EngineHost host{.device = on_device ? &far : nullptr};
      AttachOptions options{.stage = stage, .dtype = DType::kBFloat16, .awaits_load = !from.empty()};
      Engine engine = attach(tensors_of(*subject.module), ranks, options, host);
      const auto train = [&](int first) {
        for (int step = first; step < first + 2; ++step) {
          engine.scaled(subject.loss(step, 0, 0)).backward();
          engine.step(1e-2);
        }
      };
      if (from.empty())
        train(0);
      else
        engine.load(from);
      if (!to.empty()) engine.save(to);
      train(2);
      engine.for_each_parameter(
          [&](const std::string&, const torch::Tensor& value) {
            if (ranks.rank() == 0) weights.push_back(value.clone());
          },
          /*full_precision=*/true);
    });
    return weights;
  };
  for (const int stage : {1, 3}) {
    for (const bool first_on_device : {false, true}) {
      const std::filesystem::path saved = path(first_on_device, stage, 2);
      const Values whole = run(first_on_device, 2, stage, {}, saved);
      EXPECT_TRUE(same_bits(run(!first_on_device, 2, stage, saved, {}), whole)) << stage << first_on_device;
    }
  }
}

// A deferred module has no memory yet, so it trains on the device of the options.
TEST(ModuleOnADevice, DeferredModuleUsesOptionsDevice) {
  const auto deferred_net = [] {
    auto net = deferred([] { return std::make_shared<tests::TiedNet>(); }, /*seed=*/3);
    return tests::Subject{net, [net](int step, int micro, int rank) { return loss_of(*net, step, micro, rank); }};
  };
  const RunResult unnamed = train(2, 2, {}, deferred_net), named = train(2, 2, {.device = "cpu"}, deferred_net);
  EXPECT_EQ(named.loss_bits, unnamed.loss_bits);
  EXPECT_TRUE(same_bits(named.parameters, unnamed.parameters));
  EXPECT_CONTAINS(message_of<ConfigError>([&] { train(1, 1, {.device = "gpu"}, deferred_net); }),
                  "run.device = gpu: there is no such device");
  if (find_gpus(/*memory=*/false).gpus.empty()) {
    EXPECT_CONTAINS(message_of<ConfigError>([&] { train(1, 1, {.device = "cuda"}, deferred_net); }),
                    "run.device = cuda: ");
    EXPECT_EQ(train(2, 2, {.device = "auto"}, deferred_net).loss_bits, unnamed.loss_bits);
  }
}

TEST(ModuleOnADevice, RefusesModuleElsewhereByName) {
  FarMemory gpu("cuda:0");
  EXPECT_CONTAINS(message_of<ConfigError>([&] { train(1, 1, {}, tied_net, 1e-2, {.device = &gpu}); }),
                  "it is on cpu, and training is on cuda:0");
}

}  // namespace
}  // namespace zero
