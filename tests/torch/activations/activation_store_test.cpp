#include "zero/torch/activations/activation_store.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "zero/base/error/error.h"
#include "zero/memory/disk/disk_places.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/torch/activations/activation_store_shared.h"

#include "tests/memory/scripted_queue.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/held_bytes.h"
#include "tests/torch/subjects.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::same_bits;
using Tensors = std::vector<torch::Tensor>;
using Segment = std::function<torch::Tensor(const Tensors&)>;

struct Way {
  const char* name;
  Tier tier;
  double link;
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class ActivationStores : public ::testing::TestWithParam<Way> {
 protected:
  ActivationOffloadOptions options() const {
    return {
        .tier = GetParam().tier, .disk = {folder.path()}, .checksums = true, .link_bytes_per_second = GetParam().link};
  }
  torch::Tensor kept(const Segment& fn, const Tensors& inputs) const {
    return checkpoint(fn, inputs, store.checkpoint_options());
  }
  std::int64_t offloaded() const { return store.report().activation_offload.bytes; }

  TemporaryFolder folder;
  ActivationStore store{options()};
};

torch::Tensor plain(const Segment& fn, const Tensors& inputs) {
  return fn(inputs);
}

// Results of a chain with dropout: the loss, and the gradients of the input and of the weights.
Tensors results_of_chain(const std::function<torch::Tensor(const Segment&, const Tensors&)>& run) {
  torch::manual_seed(5);
  const torch::Tensor input = torch::randn({3, 7}).requires_grad_();
  Tensors weights;
  torch::Tensor x = input * 1.5;
  for (int i = 0; i < 9; ++i) {
    weights.push_back(torch::randn({7, 7}).requires_grad_());
    const torch::Tensor weight = weights.back();
    x = run([weight](const Tensors& in) { return in[0] + torch::dropout(in[0].mm(weight).tanh(), 0.3, true); }, {x});
  }
  const torch::Tensor loss = x.square().mean();
  loss.backward();
  Tensors results{loss.detach(), input.grad()};
  for (const torch::Tensor& weight : weights) results.push_back(weight.grad());
  return results;
}

// The store changes no bit of the results.
TEST_P(ActivationStores, MatchRunWithoutStore) {
  const Tensors expected = results_of_chain(plain);
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(
        same_bits(expected, results_of_chain([&](const Segment& fn, const Tensors& in) { return kept(fn, in); })));
    EXPECT_EQ(offloaded(), 0);
  }
  EXPECT_EQ(store.report().activation_offload.peak_bytes, 9 * 3 * 7 * 4);
}

TEST_P(ActivationStores, HoldActivationsUntilBackward) {
  const torch::Tensor x = torch::ones({100}).requires_grad_();
  const torch::Tensor y = kept([](const Tensors& in) { return in[0].exp(); }, {x * 2});
  EXPECT_EQ(offloaded(), 400);
  y.sum().backward();
  EXPECT_EQ(offloaded(), 0);
}

TEST_P(ActivationStores, ServeARetainedGraphTwice) {
  const torch::Tensor x = torch::arange(6, torch::kFloat).requires_grad_();
  torch::Tensor y = x * 1;
  for (int i = 0; i < 8; ++i) y = kept([](const Tensors& in) { return in[0].sin() + in[0]; }, {y});
  y.sum().backward({}, /*keep_graph=*/true);
  const torch::Tensor once = x.grad().clone();
  x.mutable_grad().reset();
  y.sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), once));
}

TEST_P(ActivationStores, ReclaimDroppedGraphsMemory) {
  const torch::Tensor x = torch::ones({100}).requires_grad_();
  for (int step = 0; step < 50; ++step) {
    torch::Tensor y = x * 2;
    for (int i = 0; i < 6; ++i) y = kept([](const Tensors& in) { return in[0].exp(); }, {y});
    EXPECT_EQ(offloaded(), 2400);
  }
  EXPECT_EQ(offloaded(), 0);
  const ActivationReport report = store.report();
  EXPECT_LE(report.held.host[MemoryTag::kActivation], 2400);
  EXPECT_LE(report.held.disk[MemoryTag::kActivation], DiskPlaces::kSlabBytes);
}

TEST_P(ActivationStores, MayBeGoneBeforeTheGraph) {
  auto mine = std::make_unique<ActivationStore>(options());
  const torch::Tensor x = torch::ones({10}).requires_grad_();
  torch::Tensor y = x * 2;
  for (int i = 0; i < 6; ++i)
    y = checkpoint([](const Tensors& in) { return in[0] * in[0]; }, {y}, mine->checkpoint_options());
  mine.reset();
  y.sum().backward();
  EXPECT_EQ(x.grad()[0].item<double>(), 64 * std::pow(2.0, 64));
}

TEST_P(ActivationStores, BringStridesAndTypesBack) {
  torch::manual_seed(3);
  const torch::Tensor matrix = torch::randn({6, 5}).requires_grad_(), row = torch::randn({5});
  const Tensors inputs{(matrix * 1).t(),                                // another order of dimensions
                       (matrix * 1).slice(1, 1, 4),                     // with gaps
                       row.expand({4, 5}),                              // all rows are the same memory
                       torch::arange(7),                                // integers
                       (matrix * 1).to(torch::kBFloat16).select(0, 2),  // bf16, from the middle
                       torch::full({}, 2.5),                            // a scalar
                       torch::tensor({true, false})};
  std::vector<Tensors> seen;
  const torch::Tensor y = kept(
      [&](const Tensors& in) {
        seen.push_back(in);
        torch::Tensor sum = torch::zeros({});
        for (const torch::Tensor& each : in) sum = sum + each.to(torch::kFloat).sum();
        return sum;
      },
      inputs);
  y.backward();
  ASSERT_EQ(seen.size(), 2U);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(seen[1][i].strides(), inputs[i].strides()) << i;
    EXPECT_EQ(seen[1][i].requires_grad(), inputs[i].requires_grad()) << i;
    EXPECT_TRUE(same_bits(seen[1][i].detach(), inputs[i].detach())) << i;
    EXPECT_NE(seen[1][i].const_data_ptr(), inputs[i].const_data_ptr()) << i << " was kept";
  }
}

TEST_P(ActivationStores, ServeCheckpointsInCheckpoints) {
  const Tensors expected = results_of_chain(plain);
  EXPECT_TRUE(same_bits(expected, results_of_chain([&](const Segment& fn, const Tensors& in) {
                          return kept([&, fn](const Tensors& inner) { return kept(fn, {inner[0]}); }, in);
                        })));
  EXPECT_EQ(offloaded(), 0);
}

// From a depth of 60 libtorch continues a nested backward pass on another thread.
TEST_P(ActivationStores, ServeAutogradsOtherThreads) {
  const std::function<torch::Tensor(int, const torch::Tensor&)> nested = [&](int depth, const torch::Tensor& x) {
    if (depth == 0) return x;
    return kept([&, depth](const Tensors& in) { return torch::sin(nested(depth - 1, in[0])); }, {x});
  };
  const torch::Tensor x = torch::full({2}, 0.5).requires_grad_(), y = torch::full({2}, 0.5).requires_grad_();
  nested(70, x).sum().backward();
  torch::Tensor expected = y;
  for (int i = 0; i < 70; ++i) expected = torch::sin(expected);
  expected.sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), y.grad()));
  EXPECT_EQ(offloaded(), 0);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ActivationStores,
                         ::testing::Values(Way{"host", Tier::kHost, 0}, Way{"host_over_link", Tier::kHost, 20e9},
                                           Way{"disk", Tier::kDisk, 0}, Way{"disk_over_link", Tier::kDisk, 20e9}),
                         [](const auto& instance) { return std::string(instance.param.name); });

// ---- bytes on the device

TEST(ActivationStore, LeavesOnlyLastOutputOnDevice) {
  constexpr std::int64_t kActivation = 64 * 128 * sizeof(float);
  constexpr int kChain = 8;
  ActivationStore store({.tier = Tier::kHost});
  const torch::Tensor input = torch::ones({64, 128}).requires_grad_();
  const auto held = std::make_shared<HeldBytes>();
  const c10::DebugInfoGuard listening(c10::DebugInfoKind::PROFILER_STATE, held);
  torch::Tensor x = input * 1;
  for (int i = 0; i < kChain; ++i)
    x = checkpoint([](const Tensors& in) { return in[0].exp().tanh().sigmoid(); }, {x}, store.checkpoint_options());
  EXPECT_NEAR(held->now, kActivation, kActivation / 2) << "and not one for each checkpoint";
  EXPECT_EQ(store.report().held.host[MemoryTag::kActivation], kChain * kActivation);
  x.sum().backward();
  EXPECT_LE(held->most, 8 * kActivation + kActivation / 2) << "the results of one checkpoint, and scalars";
}

// ---- tensors that stay

TEST(ActivationStore, KeepsWhatHasNoMemoryHere) {
  ActivationStore store({.tier = Tier::kHost});
  const torch::Tensor meta = torch::ones({4}, torch::kMeta).requires_grad_(), empty = torch::ones({0}).requires_grad_();
  const auto exp = [](const Tensors& in) { return in[0].exp(); };
  for (const torch::Tensor& x : {meta, empty}) {
    const torch::Tensor y = checkpoint(exp, {x * 1}, store.checkpoint_options());
    EXPECT_EQ(store.report().activation_offload.bytes, 0);
    y.sum().backward();
    EXPECT_EQ(x.grad().sizes(), x.sizes());
  }
}

TEST(ActivationStore, DetectsWriteIntoKeptTensor) {
  ActivationStore store({.tier = Tier::kHost});
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  torch::Tensor numbers = torch::complex(torch::ones({2}), torch::ones({2}));
  const torch::Tensor y = checkpoint([](const Tensors& in) { return in[0] * torch::real(in[1] * in[1]); },
                                     {x * 1, numbers.conj()}, store.checkpoint_options());
  numbers.mul_(2);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { y.sum().backward(); }), "modified by an inplace operation"));
}

TEST(ActivationStore, CopyIgnoresLaterWrites) {
  ActivationStore store({.tier = Tier::kHost});
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  torch::Tensor input = x * 2;
  const torch::Tensor y =
      checkpoint([](const Tensors& in) { return in[0].square(); }, {input}, store.checkpoint_options());
  input.detach().zero_();
  y.sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 8.0)));
}

// ---- errors

torch::Tensor chain(ActivationStore& store, const torch::Tensor& x, int length) {
  torch::Tensor y = x * 1;
  for (int i = 0; i < length; ++i)
    y = checkpoint([](const Tensors& in) { return in[0].sin(); }, {y}, store.checkpoint_options());
  return y.sum();
}

struct Failing {
  TemporaryFolder folder;
  ScriptedDisk disk;
  std::unique_ptr<ActivationStore> store =
      make_activation_store({.tier = Tier::kDisk, .disk = {folder.path()}, .checksums = true},
                            {.make_queue = [this](std::span<const int>, int) { return disk.queue(); }});
  torch::Tensor x = torch::ones({8}).requires_grad_();

  void fail(IoOperation operation) {
    disk.answer = [operation](const IoRequest& request) {
      return request.operation == operation ? std::int64_t{-EIO} : static_cast<std::int64_t>(request.memory.size());
    };
  }
};

TEST(ActivationStore, FailedWriteEndsForwardPass) {
  Failing f;
  f.fail(IoOperation::kWrite);
  EXPECT_TRUE(says(message_of<IoError>([&] { chain(*f.store, f.x, 9); }), "write of"));
  EXPECT_TRUE(says(message_of<IoError>([&] { chain(*f.store, f.x, 1); }), "write of")) << "every later pass also fails";
}

TEST(ActivationStore, FailedReadEndsBackwardPass) {
  Failing f;
  const torch::Tensor loss = chain(*f.store, f.x, 9);
  f.fail(IoOperation::kRead);
  EXPECT_TRUE(says(message_of<IoError>([&] { loss.backward(); }), "read of"));
  EXPECT_FALSE(f.x.grad().defined()) << "no gradient of half a pass";
}

TEST(ActivationStore, FlippedBitEndsBackwardPass) {
  Failing f;
  const torch::Tensor loss = chain(*f.store, f.x, 9);
  f.disk.files[0][5] ^= std::byte{8};
  EXPECT_TRUE(says(message_of<IoError>([&] { loss.backward(); }), "differs from the page written there"));
  EXPECT_FALSE(f.x.grad().defined()) << "no gradient of half a pass";
}

TEST(ActivationStore, MissingFolderIsKnownBeforehand) {
  ActivationStore store({.tier = Tier::kDisk, .disk = {"/nowhere/at/all"}});
  EXPECT_TRUE(says(message_of<ConfigError>([&] { store.open(); }), "zero.disk"));
}

// ---- together with an engine

constexpr int kWorld = 2;

tests::MakeSubject subject(const std::optional<ActivationOffloadOptions>& activation_offload) {
  return [activation_offload] {
    auto net = std::make_shared<tests::TiedNet>();
    const std::shared_ptr<ActivationStore> store =
        activation_offload ? std::make_shared<ActivationStore>(*activation_offload) : nullptr;
    return tests::Subject{
        net, [net, store](int step, int micro, int rank) {
          const torch::Tensor tokens = tests::tokens_of(step, micro, rank);
          torch::Tensor x = net->table(tokens);
          for (std::size_t i = 0; i < net->blocks->size(); ++i) {
            // The scale is a parameter. It is passed as it is and gathered when an operator uses it.
            const auto run = [&net = *net, i](const Tensors& in) { return net.block(i).forward(in[0]) * in[1]; };
            x = checkpoint(run, {x, net->scale}, store ? store->checkpoint_options() : CheckpointOptions{});
          }
          return tests::next_token_loss(torch::matmul(x, net->table->weight.t()), tokens);
        }};
  };
}

TEST(ActivationStore, MatchesKeptInputsAtEveryStage) {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const AttachOptions& options : tests::all_stages({.accumulate = 2, .dtype = dtype})) {
      const tests::RunResult expected = tests::train(kWorld, 3, options, subject({}));
      for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
        const tests::RunResult seen =
            tests::train(kWorld, 3, options,
                         subject(ActivationOffloadOptions{.tier = tier, .disk = {folder.path()}, .checksums = true}));
        const std::string where = tests::placement_of(options) + std::string(" on ") + std::string(name_of(tier));
        EXPECT_EQ(expected.loss_bits, seen.loss_bits) << where;
        EXPECT_EQ(expected.grad_norms, seen.grad_norms) << where;
        EXPECT_TRUE(same_bits(expected.parameters, seen.parameters)) << where;
      }
    }
  }
}

}  // namespace
}  // namespace zero
