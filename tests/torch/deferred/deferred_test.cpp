#include "zero/torch/deferred/deferred.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/torch/training_run.h"

namespace zero {
namespace {

struct Net : torch::nn::Module {
  Net() {
    encoder = register_module("encoder", torch::nn::Linear(16, 8));
    rnn = register_module("rnn", torch::nn::GRU(torch::nn::GRUOptions(8, 8)));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    torch::nn::init::orthogonal_(encoder->weight);
    table = register_parameter("table", torch::randn({5, 4}) * 0.5);
    mask = register_buffer("mask", torch::tril(torch::ones({4, 4})));
  }
  torch::nn::Linear encoder{nullptr};
  torch::nn::GRU rnn{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::Tensor table, mask;
};

std::shared_ptr<Net> make_net(std::uint64_t seed) {
  return deferred([] { return std::make_shared<Net>(); }, seed);
}

TEST(Deferred, HoldsShapesAndNoMemory) {
  const auto net = make_net(1);
  for (const torch::Tensor& parameter : net->parameters()) {
    EXPECT_TRUE(parameter.is_meta());
    EXPECT_TRUE(is_deferred(parameter));
    EXPECT_TRUE(parameter.requires_grad());
  }
  EXPECT_EQ(net->encoder->weight.sizes(), (std::vector<std::int64_t>{8, 16}));
}

TEST(Deferred, NothingIsRecordedOutsideTheScope) {
  const auto net = make_net(1);
  EXPECT_FALSE(torch::ones({3}).is_meta());
}

TEST(Deferred, ReplaysTheModulesOwnInitialisation) {
  const auto net = make_net(1);
  const torch::Tensor weight = build_deferred(net->encoder->weight, "encoder.weight");
  EXPECT_TRUE(torch::allclose(weight.mm(weight.t()), torch::eye(8), 1e-4, 1e-5)) << "orthogonal_ was not replayed";
  EXPECT_TRUE(torch::equal(build_deferred(net->norm->weight, "norm.weight"), torch::ones({8})));
  EXPECT_TRUE(torch::equal(build_deferred(net->mask, "mask"), torch::tril(torch::ones({4, 4}))));
  EXPECT_NEAR(build_deferred(net->table, "table").std().item().toDouble(), 0.5, 0.25);
}

TEST(Deferred, WeightsDependOnSeedAndName) {
  const auto one = make_net(1), again = make_net(1), other = make_net(2);
  const auto build = [](const std::shared_ptr<Net>& net, const char* name) { return build_deferred(net->table, name); };
  EXPECT_TRUE(tests::same_bits(build(one, "table"), build(again, "table")));
  EXPECT_FALSE(tests::same_bits(build(one, "table"), build(other, "table")));
  EXPECT_FALSE(tests::same_bits(build(one, "table"), build(one, "another")));
}

// The device of a recorded tensor, as transformers constructs a mamba, and a device that a constructor names.
TEST(Deferred, NamedDevicesBecomeTheCpu) {
  const torch::Tensor wanted = torch::tensor({0.0, 1.0, 2.0}, torch::kDouble);
  for (const bool of_tensor : {true, false}) {
    const torch::Tensor made = deferred([&] {
      const torch::Device device = of_tensor ? torch::zeros({3}).device() : torch::Device(torch::kCUDA);
      const torch::Tensor places = torch::arange(3, torch::dtype(torch::kFloat).device(device));
      const torch::Tensor random = torch::rand({3}, torch::dtype(torch::kFloat).device(device));
      return (places + random * 0).to(device, torch::kDouble);
    });
    EXPECT_TRUE(torch::equal(build_deferred(made, "made"), wanted)) << of_tensor;
  }
}

TEST(Deferred, LeavesTheGlobalGeneratorAlone) {
  torch::manual_seed(3);
  const torch::Tensor expected = torch::rand({4});
  torch::manual_seed(3);
  const auto net = make_net(1);
  build_deferred(net->table, "table");
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

// The construction reads a value.
TEST(Deferred, ValueReadIsRefusedByOperator) {
  try {
    deferred([] { return std::make_shared<torch::nn::LinearImpl>(torch::rand({1}).item().toFloat() > 2 ? 3 : 4, 4); });
    FAIL() << "was recorded";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("item"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(torch::ones({3}).is_meta()) << "the scope did not end";
}

// In every world and at every stage.
TEST(Deferred, AttachedWeightsMatchEverywhere) {
  std::vector<torch::Tensor> reference;
  for (const auto& [world, stage] : {std::pair{1, 0}, {2, 1}, {2, 3}, {3, 3}}) {
    std::vector<torch::Tensor> mine;
    tests::on_every_rank(world, [&, stage = stage](World& ranks) {
      const auto net = make_net(5);
      Engine engine = attach(*net, ranks, {.stage = stage});
      engine.for_each_parameter([&](const std::string&, const torch::Tensor& value) {
        if (ranks.rank() == 0) mine.push_back(value.clone());
      });
    });
    if (reference.empty()) reference = mine;
    EXPECT_TRUE(tests::same_bits(reference, mine)) << "world " << world << " stage " << stage;
  }
}

// ---- tensors with values: torch.tensor() in Python, numbers beside tensors, tensors made before

// Makes a buffer with and without deferred(). Both have the same bits.
void expect_same_buffer(const std::function<torch::Tensor()>& make) {
  struct Holder : torch::nn::Module {};
  const auto net = deferred([&] {
    auto holder = std::make_shared<Holder>();
    holder->register_buffer("value", make());
    return holder;
  });
  const torch::Tensor buffer = net->buffers().at(0);
  EXPECT_TRUE(is_deferred(buffer));
  const torch::Tensor wanted = make();
  EXPECT_EQ(buffer.scalar_type(), wanted.scalar_type());
  EXPECT_TRUE(tests::same_bits(build_deferred(buffer, "value"), wanted));
  EXPECT_TRUE(tests::same_bits(build_deferred(buffer, "value"), wanted)) << "built again";
}

TEST(DeferredConstants, TensorsWithValuesAreCopied) {
  const torch::Tensor three = torch::tensor(3), doubles = torch::tensor({1.5, 2.5, 4.0}, torch::kDouble);
  const torch::Tensor four = torch::tensor({1.f, 2.f, 3.f, 4.f}), places = torch::tensor({0, 2, 5});
  expect_same_buffer([&] { return three + torch::zeros({2}); });
  expect_same_buffer([&] { return doubles.to(torch::kFloat) * torch::arange(3); });
  expect_same_buffer([&] { return torch::cat({torch::ones({2}), four}); });
  expect_same_buffer([&] { return torch::arange(6).index({places}); });
  expect_same_buffer([&] { return four.view({2, 2}).t() + torch::zeros({2, 2}); });
  expect_same_buffer([] { return torch::tensor({5.f, 6.f}) + torch::tensor(0); });
}

TEST(DeferredConstants, LaterChangesDoNotCount) {
  const torch::Tensor given = torch::tensor({1.f, 2.f});
  const torch::Tensor made = deferred([&] { return given + torch::zeros({2}); });
  given.fill_(9);
  EXPECT_TRUE(torch::equal(build_deferred(made, "made"), torch::tensor({1.f, 2.f})));
}

// The 8 is a wrapped number: the result is fp32, and the division does not change the type of the 8.
TEST(DeferredConstants, NumbersBesideTensorsStayNumbers) {
  expect_same_buffer([] { return torch::arange(5) / 8; });
  expect_same_buffer([] { return torch::pow(2.0, torch::arange(4, torch::kFloat)); });
  expect_same_buffer([] { return torch::arange(5) * 2; });
  expect_same_buffer([] { return 1.0 / torch::pow(10000, torch::arange(0, 8, 2) / 8.0); });
}

// torch::zeros({3}) has the default type at the time of the call, not at the time of its construction.
TEST(Deferred, ReplayUsesTheRecordedDefaultType) {
  const c10::ScalarType usual = c10::typeMetaToScalarType(c10::get_default_dtype());
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(torch::kBFloat16));
  const torch::Tensor ones = deferred([] { return torch::ones({3}); });
  const torch::Tensor parts = deferred([] { return torch::arange(3, torch::kLong) / 2; });
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(usual));
  EXPECT_TRUE(torch::equal(build_deferred(ones, "ones"), torch::ones({3}, torch::kBFloat16)));
  EXPECT_TRUE(torch::equal(build_deferred(parts, "parts"), torch::tensor({0.0, 0.5, 1.0}, torch::kBFloat16)));
  EXPECT_EQ(c10::typeMetaToScalarType(c10::get_default_dtype()), usual);
}

TEST(DeferredConstants, TheirValuesMayBeRead) {
  const torch::Tensor seven = torch::tensor(7);
  expect_same_buffer([&] { return torch::full({2}, seven.item<int>()); });
}

TEST(DeferredConstants, WritesIntoThemAreRefused) {
  const torch::Tensor constant = torch::tensor({1.f, 2.f});
  for (const bool of_view : {false, true}) {
    try {
      deferred([&] {
        (of_view ? constant[0] : constant).fill_(3);
        return constant;
      });
      FAIL() << "nothing was thrown";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("deferred = aten::fill_: it writes into a tensor that has values"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace zero
