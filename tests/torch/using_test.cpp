// A parameter's memory can be read only in an operator and in a gathered() or use() scope.
#include <algorithm>

#include <gtest/gtest.h>

#include <torch/library.h>

#include "tests/support/message_of.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::TiedNet;

// An operator of an extension. It reads memory directly.
double first_of(const torch::Tensor& tensor) {
  return tensor.const_data_ptr<float>()[0];
}

TORCH_LIBRARY(zero_using_test, m) {
  m.def("first(Tensor x) -> float", &first_of);
}

double first_by_operator(const torch::Tensor& tensor) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("zero_using_test::first", "")
                             .typed<double(const torch::Tensor&)>();
  return op.call(tensor);
}

std::string refusal_of(const torch::Tensor& tensor) {
  return message_of<c10::Error>([&] { static_cast<void>(tensor.const_data_ptr()); });
}

// On two ranks, at every stage, after a forward pass. Some units may still be gathered.
void after_forward(const std::function<void(TiedNet&, Engine&)>& body) {
  for (const AttachOptions& options : tests::all_stages({})) {
    SCOPED_TRACE(tests::placement_of(options));
    auto nets = tests::tied_nets(2);
    tests::on_every_rank(2, [&](World& ranks) {
      TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
      Engine engine = attach(net, ranks, options);
      loss_of(net, 0, 0, ranks.rank()).backward();
      engine.step();
      const torch::Tensor loss = loss_of(net, 1, 0, ranks.rank());
      body(net, engine);
      loss.backward();
    });
  }
}

TEST(ParameterMemory, RefusesReadsWhileGathered) {
  after_forward([](TiedNet& net, Engine&) {
    for (const torch::Tensor& tensor : {net.table->weight, net.table->weight.t(), net.table->weight.detach()})
      EXPECT_TRUE(says(refusal_of(tensor), "table.weight: this parameter"));
    EXPECT_TRUE(says(refusal_of(net.scale), "scale: this parameter"));
    EXPECT_THROW(static_cast<void>(net.scale.mutable_data_ptr()), c10::Error);
  });
}

TEST(ParameterMemory, OperatorsReadTheirArguments) {
  after_forward([](TiedNet& net, Engine&) {
    const torch::Tensor weight = net.block(1).up->weight;
    EXPECT_EQ(first_by_operator(weight), weight[0][0].item<double>());
    EXPECT_EQ(first_by_operator(weight.t()), weight[0][0].item<double>());
    EXPECT_TRUE(says(refusal_of(weight), "engine.use({parameter})"));
  });
}

TEST(ParameterMemory, FailedOperatorEndsItsReading) {
  after_forward([](TiedNet& net, Engine&) {
    EXPECT_THROW(net.scale.reshape({2, 3}), c10::Error);
    EXPECT_THROW(torch::matmul(net.table->weight, torch::ones({5, 5})), c10::Error);
    EXPECT_TRUE(says(refusal_of(net.table->weight), "table.weight"));
  });
}

TEST(UsingScope, HoldsItsParametersOnly) {
  after_forward([](TiedNet& net, Engine& engine) {
    const torch::Tensor weight = net.block(2).down->weight;
    const double first = weight[0][0].item<double>();
    {
      const auto used = engine.use({weight, net.block(0).up->bias.detach()});
      const auto again = engine.use({weight.t()});
      EXPECT_EQ(first_of(weight), first);
      EXPECT_EQ(first_of(weight.t()), first);
      static_cast<void>(net.block(0).up->bias.const_data_ptr());
      EXPECT_FALSE(refusal_of(net.block(2).down->bias).empty());
    }
    EXPECT_TRUE(says(refusal_of(weight), "blocks.2.down.weight"));
  });
}

// A user's own kernel replaces an operator. The bits are the same, and the steps follow their schedule.
TEST(UsingScope, CountsAsAnOperator) {
  for (const AttachOptions& options : tests::all_stages({})) {
    SCOPED_TRACE(tests::placement_of(options));
    std::vector<tests::Values> weights;
    for (const bool uses : {false, true}) {
      auto nets = tests::tied_nets(2);
      tests::on_every_rank(2, [&](World& ranks) {
        TiedNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
        Engine engine = attach(net, ranks, options);
        for (int step = 0; step < 3; ++step) {
          double sum = 0;
          if (uses) {
            const auto used = engine.use({net.block(1).up->weight});
            sum = first_of(net.block(1).up->weight);
          } else {
            sum = first_by_operator(net.block(1).up->weight);
          }
          (loss_of(net, step, 0, ranks.rank()) * (1 + sum)).backward();
          engine.step(1e-2);
        }
        EXPECT_EQ(engine.report().trace_mismatches, 0);
        tests::Values mine = tests::weights_of(engine);
        if (ranks.rank() == 0) weights.push_back(std::move(mine));
      });
    }
    EXPECT_TRUE(tests::same_bits(weights[0], weights[1]));
  }
}

TEST(UsingScope, RefusesForeignTensors) {
  TiedNet net, other;
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.stage = 3}), another = attach(other, ranks, {.stage = 3});
    for (const torch::Tensor& tensor : {torch::ones({2}), other.scale, torch::Tensor()})
      EXPECT_TRUE(says(message_of<ConfigError>([&] { const auto used = engine.use({tensor}); }),
                       "this tensor is no parameter of the attached model"));
    const UsingScope all({net.scale, other.scale, torch::ones({2}), torch::Tensor()});
    EXPECT_EQ(first_of(net.scale), 1);
    EXPECT_EQ(first_of(other.scale), 1);
  });
}

// numpy() and tolist() in Python make both calls, and then read the memory of the result.
TEST(Resolve, GivesValuesThatStay) {
  after_forward([](TiedNet& net, Engine& engine) {
    torch::Tensor weight = net.block(1).up->weight;
    const torch::Tensor values = weight.detach().clone();
    const torch::Tensor taken = weight.detach().resolve_conj().resolve_neg();
    const void* const memory = taken.const_data_ptr();
    const torch::Tensor row = weight.detach()[1].resolve_neg();
    {
      const auto whole = engine.gathered({weight});
      const torch::Tensor alias = weight.detach().resolve_conj().resolve_neg();
      EXPECT_EQ(alias.mutable_data_ptr(), weight.mutable_data_ptr()) << "mutable_data_ptr(), for writes";
      EXPECT_NE(alias.const_data_ptr(), memory);
      std::fill_n(alias.mutable_data_ptr<float>(), alias.numel(), 3.f);
    }
    EXPECT_EQ(weight[0][0].item<float>(), 3);
    EXPECT_TRUE(tests::same_bits(taken, values));
    EXPECT_TRUE(tests::same_bits(row, values[1].clone()));
  });
}

}  // namespace
}  // namespace zero
