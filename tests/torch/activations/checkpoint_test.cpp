// Activation checkpoints with plain libtorch: their results, the tensors that they keep, and the calls that they
// refuse. checkpoint_stages_test.cpp tests sharded parameters inside them.
#include "zero/torch/activations/checkpoint.h"

#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include "zero/base/error/error.h"
#include "zero/torch/deferred/surroundings.h"

#include "tests/support/message_of.h"
#include "tests/torch/held_bytes.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using Tensors = std::vector<torch::Tensor>;
using Segment = std::function<torch::Tensor(const Tensors&)>;
using tests::same_bits;

torch::Tensor plain(const Segment& fn, const Tensors& inputs) {
  return fn(inputs);
}
torch::Tensor kept(const Segment& fn, const Tensors& inputs) {
  return checkpoint(fn, inputs);
}
// Runs a segment: checkpoint(), or a plain call.
using Runner = torch::Tensor (*)(const Segment&, const Tensors&);

struct Block : torch::nn::Module {
  explicit Block(double dropout = 0) : dropout(dropout) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return x + torch::dropout(down(torch::gelu(up(norm(x)))), dropout, is_training());
  }
  double dropout;
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({6})};
  torch::nn::Linear up{6, 24}, down{24, 6};
};

// Results of a chain of blocks: the loss, the gradients of input and parameters, and the generator's last state.
Tensors results_of_chain(Runner run, double dropout) {
  torch::manual_seed(11);
  const torch::Tensor input = torch::randn({3, 6}).requires_grad_();
  torch::Tensor x = input * 1.5;
  std::vector<std::shared_ptr<Block>> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(std::make_shared<Block>(dropout));
  for (const auto& block : blocks) x = run([block](const Tensors& in) { return block->forward(in[0]); }, {x});
  const torch::Tensor loss = x.square().mean();
  torch::rand({5});  // the generator advances between the two runs
  loss.backward();
  Tensors results{loss.detach(), input.grad(), generator_state()};
  for (const auto& block : blocks) {
    for (const torch::Tensor& parameter : block->parameters()) results.push_back(parameter.grad());
  }
  return results;
}

TEST(Checkpoint, MatchesRunWithout) {
  EXPECT_TRUE(same_bits(results_of_chain(plain, 0), results_of_chain(kept, 0)));
}

// Dropout and generator behave as without a checkpoint.
TEST(Checkpoint, KeepsDropoutAndGenerator) {
  EXPECT_TRUE(same_bits(results_of_chain(plain, 0.3), results_of_chain(kept, 0.3)));
  EXPECT_FALSE(same_bits(results_of_chain(plain, 0.3), results_of_chain(plain, 0))) << "nothing was dropped";
}

TEST(Checkpoint, NestedOnesHaveTheSameBits) {
  static const Runner twice = [](const Segment& fn, const Tensors& inputs) {
    return checkpoint([fn](const Tensors& in) { return checkpoint(fn, {in[0]}); }, inputs);
  };
  EXPECT_TRUE(same_bits(results_of_chain(plain, 0.3), results_of_chain(twice, 0.3)));
}

torch::Tensor nested(int depth, const torch::Tensor& x) {
  if (depth == 0) return x;
  return checkpoint([depth](const Tensors& in) { return torch::sin(nested(depth - 1, in[0])); }, {x});
}

TEST(Checkpoint, NestsBeyondOneThreadsStack) {
  // From a depth of 60 libtorch continues a nested backward pass on another thread.
  const torch::Tensor x = torch::full({2}, 0.5).requires_grad_(), y = torch::full({2}, 0.5).requires_grad_();
  nested(70, x).sum().backward();
  torch::Tensor expected = y;
  for (int i = 0; i < 70; ++i) expected = torch::sin(expected);
  expected.sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), y.grad()));
}

TEST(Checkpoint, ParametersGetGradientsWithoutInputGradients) {
  torch::nn::Embedding table(5, 4);
  const torch::Tensor tokens = torch::tensor({1, 3, 1});
  const auto gradient = [&](Runner run) {
    table->zero_grad(true);
    run([&](const Tensors& in) { return table(in[0]); }, {tokens}).square().sum().backward();
    return table->weight.grad();
  };
  const torch::Tensor expected = gradient(plain);
  EXPECT_GT(expected.abs().sum().item<double>(), 0);
  EXPECT_TRUE(same_bits(expected, gradient(kept)));
  torch::Tensor without_inputs = checkpoint([&](const Tensors&) { return table->weight * 2; }, {});
  without_inputs.sum().backward();
  EXPECT_TRUE(torch::equal(table->weight.grad(), expected + 2));
}

// Some outputs are unused, and some have no gradient.
TEST(Checkpoint, GivesSeveralOutputs) {
  const torch::Tensor x = torch::arange(6, torch::kFloat).reshape({2, 3}).requires_grad_();
  const Tensors out = checkpoint(
      [](const Tensors& in) {
        const auto [values, places] = in[0].max(1);
        return Tensors{in[0].exp(), values, places, torch::Tensor(), in[0].detach() * 2, in[0]};
      },
      {x});
  ASSERT_EQ(out.size(), 6u);
  EXPECT_TRUE(out[1].requires_grad());
  EXPECT_EQ(out[2].scalar_type(), torch::kLong);
  EXPECT_FALSE(out[3].defined());
  EXPECT_FALSE(out[4].requires_grad()) << "fn detached it";
  (out[1].sum() * 3 + out[5].sum()).backward();  // out[0] is not used
  EXPECT_TRUE(torch::equal(x.grad(), torch::tensor({{1.0F, 1.0F, 4.0F}, {1.0F, 1.0F, 4.0F}})));
}

TEST(Checkpoint, TakesUndefinedAndGradientlessInputs) {
  const torch::Tensor x = torch::ones({3}).requires_grad_(), scale = torch::full({3}, 2.0);
  const torch::Tensor y = checkpoint([](const Tensors& in) { return in[0] * in[2] + (in[1].defined() ? 1 : 0); },
                                     {x, torch::Tensor(), scale});
  y.sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), scale));
  EXPECT_FALSE(scale.grad().defined());
}

TEST(Checkpoint, RunsFnOnceEachWay) {
  int runs = 0;
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  const torch::Tensor y = checkpoint([&runs](const Tensors& in) { return ++runs, in[0].exp(); }, {x});
  EXPECT_EQ(runs, 1);
  y.sum().backward();
  EXPECT_EQ(runs, 2);
}

// If nothing needs a gradient, checkpoint() only calls fn.
TEST(Checkpoint, OnlyCallsFnWithoutGradients) {
  int runs = 0;
  const auto fn = [&runs](const Tensors& in) { return ++runs, in[0].exp(); };
  EXPECT_FALSE(checkpoint(fn, {torch::ones({2})}).requires_grad());
  {
    const torch::NoGradGuard evaluation;
    EXPECT_FALSE(checkpoint(fn, {torch::ones({2}).requires_grad_()}).requires_grad());
  }
  EXPECT_EQ(runs, 2);
}

TEST(Checkpoint, RetainedGraphAllowsTwoBackwards) {
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  const torch::Tensor y = checkpoint([](const Tensors& in) { return in[0].square(); }, {x}).sum();
  y.backward({}, /*keep_graph=*/true);
  y.backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 4.0)));
}

class WithAutocast {
 public:
  WithAutocast() { at::autocast::set_autocast_enabled(at::kCPU, true); }
  ~WithAutocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

TEST(Checkpoint, CastsAsInTheFirstRun) {
  torch::manual_seed(2);
  torch::nn::Linear layer(4, 4);
  std::vector<at::ScalarType> seen;
  const auto gradient = [&](Runner run) {
    layer->zero_grad(true);
    torch::Tensor loss;
    {
      const WithAutocast scope;
      layer(torch::ones({2, 4}));  // leaves a cast weight in autocast's cache
      const auto fn = [&](const Tensors& in) {
        const torch::Tensor y = layer(in[0]);
        seen.push_back(y.scalar_type());
        return y;
      };
      loss = run(fn, {torch::ones({2, 4})}).to(torch::kFloat).square().sum();
    }
    loss.backward();  // outside autocast, as PyTorch recommends
    return layer->weight.grad();
  };
  EXPECT_TRUE(same_bits(gradient(plain), gradient(kept)));
  EXPECT_EQ(seen, std::vector<at::ScalarType>(3, at::kBFloat16)) << "one plain run, two of the checkpoint";
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
}

// If no factor needs a gradient, matmul folds other dimensions, and LSTM has a kernel for inference. The first run of a
// checkpoint must still have the bits of a recorded run.
TEST(Checkpoint, ForwardMatchesRecordedRun) {
  torch::manual_seed(6);
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(64, 64).num_layers(2));
  const torch::Tensor sequence = torch::randn({20, 8, 64});
  const torch::Tensor left = torch::randn({40, 50}).requires_grad_(),
                      right = torch::randn({6, 10, 40}).requires_grad_();
  const auto forward = [&](Runner run) {
    return Tensors{run([&](const Tensors& in) { return std::get<0>(lstm(in[0])); }, {sequence}).detach(),
                   run([](const Tensors& in) { return torch::matmul((in[0] * 1).t(), (in[1] * 1).transpose(1, 2)); },
                       {left, right})
                       .detach()};
  };
  EXPECT_TRUE(same_bits(forward(plain), forward(kept)));
}

TEST(Checkpoint, ReleasesFnAndInputsAfterBackward) {
  auto captured = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = captured;
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  const torch::Tensor y = checkpoint(
      [captured = std::move(captured)](const Tensors& in) { return in[0] * static_cast<double>(*captured); }, {x * 1});
  EXPECT_FALSE(watched.expired());
  y.sum().backward();
  EXPECT_TRUE(watched.expired());
}

// ---- kept tensors

struct Held {
  std::int64_t between = 0;  // between the forward and the backward pass
  std::int64_t most = 0;
};

constexpr int kChain = 8;
constexpr std::int64_t kActivation = 64 * 128 * sizeof(float);

// A segment has five operators, each of which keeps its result of kActivation bytes for the backward pass.
Held held_by(Runner run) {
  const torch::Tensor input = torch::ones({64, 128}).requires_grad_();
  const auto held = std::make_shared<HeldBytes>();
  const c10::DebugInfoGuard listening(c10::DebugInfoKind::PROFILER_STATE, held);
  torch::Tensor x = input * 1;
  for (int i = 0; i < kChain; ++i) {
    x = run([](const Tensors& in) { return in[0].exp().tanh().sigmoid().tanh().sigmoid(); }, {x});
  }
  const std::int64_t between = held->now;
  x.sum().backward();
  return {between, held->most};
}

TEST(Checkpoint, KeepsItsInputsAlone) {
  const Held with = held_by(kept), without = held_by(plain);
  constexpr std::int64_t kSlack = kActivation / 2;  // scalars and states of the generator
  EXPECT_NEAR(without.between, 5 * kChain * kActivation, kSlack) << "this is how libtorch keeps results";
  EXPECT_NEAR(with.between, (1 + kChain) * kActivation, kSlack);
}

TEST(Checkpoint, HoldsOneSegmentAtAPeak) {
  const Held with = held_by(kept), without = held_by(plain);
  EXPECT_LE(with.most, with.between + 8 * kActivation) << "five results, and one gradient";
  EXPECT_GE(without.most, without.between);
  EXPECT_LT(with.most, without.most / 2);
}

// ---- the place of inputs

struct ActivationOffload {
  int packed = 0, unpacked = 0;
};

// Keeps a copy elsewhere, as a tier does.
class OffloadedCopy final : public torch::autograd::SavedVariableHooks {
 public:
  explicit OffloadedCopy(ActivationOffload& activation_offload) : activation_offload_(activation_offload) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    ++activation_offload_.packed;
    copy_ = tensor.clone();
  }
  at::Tensor call_unpack_hook() override {
    ++activation_offload_.unpacked;
    return copy_;
  }

 private:
  ActivationOffload& activation_offload_;
  at::Tensor copy_;
};

TEST(Checkpoint, InputsMayLieElsewhere) {
  ActivationOffload activation_offload;
  const CheckpointOptions options{.keep = [&] { return std::make_unique<OffloadedCopy>(activation_offload); }};
  const torch::Tensor x = torch::ones({3}).requires_grad_(), mask = torch::tensor({1.0F, 0.0F, 1.0F});
  const auto fn = [](const Tensors& in) { return in[0].exp() * in[1]; };
  const torch::Tensor y = checkpoint(fn, {x * 1, mask, torch::Tensor()}, options);
  EXPECT_EQ(activation_offload.packed, 2);
  EXPECT_EQ(activation_offload.unpacked, 0);
  y.sum().backward();
  EXPECT_EQ(activation_offload.unpacked, 2);
  const torch::Tensor z = torch::ones({3}).requires_grad_();
  fn({z, mask}).sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), z.grad()));
}

// ---- refused calls

torch::Tensor exp_of(const torch::Tensor& x) {
  return checkpoint([](const Tensors& in) { return in[0].exp(); }, {x});
}

TEST(CheckpointRefuses, CapturedTensorThatNeedsGradient) {
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  const torch::Tensor outside = x.exp();
  const std::string message =
      message_of<ConfigError>([&] { checkpoint([&](const Tensors& in) { return in[0] * outside; }, {x * 2}); });
  EXPECT_TRUE(says(
      message, "checkpoint = ExpBackward0: fn uses a tensor that needs a gradient, and this operator made it outside"));
  EXPECT_TRUE(says(message, "pass it through `inputs`"));
  const torch::Tensor constant = outside.detach();
  EXPECT_NO_THROW(checkpoint([&](const Tensors& in) { return in[0] * constant * x; }, {x * 2}));
}

TEST(CheckpointRefuses, AnInputThatFnWrites) {
  const auto fn = [](const Tensors& in) { return in[1] * in[0].add_(1); };
  const Tensors inputs{torch::ones({2}), torch::ones({2}).requires_grad_()};
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { checkpoint(fn, inputs); }), "checkpoint = input 0: fn wrote to it in place"));
}

TEST(CheckpointRefuses, InputWrittenBetweenPasses) {
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  torch::Tensor input = x * 2;
  const torch::Tensor y = exp_of(input).sum();
  input.add_(1);
  EXPECT_TRUE(says(message_of<c10::Error>([&] { y.backward(); }), "modified by an inplace operation"));
}

TEST(CheckpointRefuses, SecondBackwardOverFreedGraph) {
  const torch::Tensor y = exp_of(torch::ones({2}).requires_grad_()).sum();
  y.backward();
  const std::string message = message_of<ConfigError>([&] { y.backward(); });
  EXPECT_TRUE(says(message, "this second pass needs"));
  EXPECT_TRUE(says(message, "retain_graph"));
}

TEST(CheckpointRefuses, AGradientOfAGradient) {
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  const torch::Tensor y = exp_of(x).sum();
  EXPECT_TRUE(says(message_of<ConfigError>([&] { y.backward({}, std::nullopt, /*create_graph=*/true); }),
                   "without create_graph"));
}

TEST(CheckpointRefuses, GradientsOfChosenTensors) {
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  const torch::Tensor y = exp_of(x).sum();
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { torch::autograd::grad({y}, {x}); }), "call backward() without inputs"));
  EXPECT_FALSE(x.grad().defined());
}

// The outputs of fn change between its two runs.
TEST(CheckpointRefuses, FunctionWithChangingOutputs) {
  int runs = 0;
  const torch::Tensor x = torch::ones({3}).requires_grad_();
  const auto message = [&](const std::function<Tensors(const Tensors&)>& fn) {
    runs = 0;
    const torch::Tensor y = checkpoint(fn, {x})[0].sum();
    return message_of<ConfigError>([&] { y.backward(); });
  };
  EXPECT_TRUE(says(message([&](const Tensors& in) { return Tensors{in[0].narrow(0, 0, ++runs).exp()}; }),
                   "checkpoint = output 0: [1] Float in the first run of fn, [2] Float in the second"));
  EXPECT_TRUE(says(message([&](const Tensors& in) { return Tensors(static_cast<std::size_t>(++runs), in[0].exp()); }),
                   "checkpoint = 2 outputs: fn gave 1 in its first run"));
  EXPECT_TRUE(says(message([&](const Tensors& in) { return Tensors{++runs == 1 ? in[0].exp() : in[0].detach()}; }),
                   "without a gradient in the second"));
  EXPECT_TRUE(says(message([&](const Tensors& in) { return Tensors{++runs == 1 ? in[0].exp() : torch::Tensor()}; }),
                   "undefined in the second"));
}

// If fn throws, its error reaches the caller, and the generator is restored.
TEST(CheckpointRefuses, SilenceIfFnThrowsInBackward) {
  torch::manual_seed(1);
  int runs = 0;
  const torch::Tensor x = torch::ones({2}).requires_grad_();
  const torch::Tensor y = checkpoint(
      [&](const Tensors& in) {
        const torch::Tensor noise = torch::rand({2});
        if (++runs == 2) throw IoError("/there", "read", 5);
        return in[0] * noise;
      },
      {x});
  const torch::Tensor before = generator_state();
  EXPECT_TRUE(says(message_of<IoError>([&] { y.sum().backward(); }), "/there"));
  EXPECT_TRUE(torch::equal(generator_state(), before));
}

}  // namespace
}  // namespace zero
