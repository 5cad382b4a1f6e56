// AttachOptions::dtype = bf16 also rounded the running statistics of a BatchNorm, which then did not change any more.
// Modules with running statistics stay in fp32.
#include <gtest/gtest.h>

#include "zero/torch/seam/tensor_type.h"

#include "tests/torch/training_run.h"

namespace zero {
namespace {

using tests::RunResult;
using tests::Subject;

struct ConvNet : torch::nn::Module {
  ConvNet() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("blocks", blocks);
    for (int i = 0; i < 2; ++i) {
      blocks->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3).padding(1).bias(false)));
      blocks->push_back(torch::nn::BatchNorm2d(4));
    }
    register_module("instance", instance);
    register_module("plain", plain);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = torch::relu(norm(conv(images)));
    for (std::size_t i = 0; i < 2; ++i)
      x = torch::relu(
          x + block<torch::nn::BatchNorm2dImpl>(2 * i + 1).forward(block<torch::nn::Conv2dImpl>(2 * i).forward(x)));
    return head(plain(instance(x)).mean({2, 3}));
  }
  template <typename Block>
  Block& block(std::size_t i) {
    return *blocks[i]->as<Block>();
  }
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(3, 4, 3)};
  torch::nn::BatchNorm2d norm{4};
  torch::nn::ModuleList blocks;
  torch::nn::InstanceNorm2d instance{torch::nn::InstanceNorm2dOptions(4).affine(true).track_running_stats(true)};
  torch::nn::BatchNorm2d plain{torch::nn::BatchNorm2dOptions(4).track_running_stats(false)};
  torch::nn::Linear head{4, 3};
};

torch::Tensor images_of(int step, int micro, int rank) {
  return torch::sin(torch::arange(2 * 3 * 6 * 6, torch::kFloat32) * (0.3 + 0.1 * step) + micro + 2 * rank)
      .reshape({2, 3, 6, 6});
}

torch::Tensor loss_of(ConvNet& net, int step, int micro, int rank) {
  const torch::Tensor images = images_of(step, micro, rank).to(net.conv->weight.scalar_type());
  return net.forward(images).to(torch::kFloat32).square().mean();
}

// The loss includes the running statistics, so they must not differ either.
Subject conv_net(torch::ScalarType type) {
  auto net = std::make_shared<ConvNet>();
  net->to(type);
  return {net, [net](int step, int micro, int rank) {
            return loss_of(*net, step, micro, rank) + net->norm->running_mean.sum() + net->norm->running_var.sum();
          }};
}

TEST(RunningStatistics, SixteenBitStagesKeepBits) {
  struct Case {
    torch::ScalarType made;
    DType dtype;
  };
  for (const auto& [type, dtype] : {Case{torch::kFloat32, DType::kBFloat16}, Case{torch::kBFloat16, DType::kBFloat16},
                                    Case{torch::kFloat32, DType::kFloat16}}) {
    const auto make = [type = type] { return conv_net(type); };
    std::vector<RunResult> runs;
    for (const AttachOptions& options :
         tests::all_stages({.clip = 0.5, .reduce = Reduce::kEach, .accumulate = 2, .dtype = dtype})) {
      runs.push_back(tests::train(2, 2, options, make));
      EXPECT_EQ(runs.front().loss_bits, runs.back().loss_bits) << tests::placement_of(options);
      EXPECT_EQ(runs.front().grad_norms, runs.back().grad_norms) << tests::placement_of(options);
      EXPECT_TRUE(tests::same_bits(runs.front().parameters, runs.back().parameters)) << tests::placement_of(options);
    }
    EXPECT_NE(runs.front().loss_bits[0], runs.front().loss_bits[2]) << "it trains";
  }
}

TEST(RunningStatistics, OnlyTheirModulesStayInFp32) {
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    ConvNet net;
    net.to(type);
    tests::on_every_rank(1, [&](World& ranks) {
      const Engine engine = attach(net, ranks, {.dtype = DType::kBFloat16});
      for (const ParamSpec& spec : engine.parameters()) {
        const bool with_statistics = spec.name.starts_with("norm.") || spec.name.starts_with("instance.") ||
                                     spec.name.starts_with("blocks.1.") || spec.name.starts_with("blocks.3.");
        EXPECT_EQ(spec.dtype, with_statistics ? DType::kFloat32 : DType::kBFloat16) << spec.name;
      }
      for (const auto& buffer : net.named_buffers()) {
        if (buffer.key().ends_with("num_batches_tracked")) continue;
        EXPECT_EQ(buffer.value().scalar_type(), torch::kFloat32) << buffer.key();
      }
    });
  }
}

TEST(RunningStatistics, WithoutATypeNothingChanges) {
  ConvNet net;
  net.to(torch::kBFloat16);
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks);
    for (const ParamSpec& spec : engine.parameters()) EXPECT_EQ(spec.dtype, DType::kBFloat16) << spec.name;
    EXPECT_EQ(net.norm->running_mean.scalar_type(), torch::kBFloat16);
    loss_of(net, 0, 0, 0).backward();
    EXPECT_FALSE(engine.step().skipped);
  });
}

// Like a table of positions that is added to the output of a layer.
struct WithTable : torch::nn::Module {
  WithTable() {
    table = register_buffer("table", torch::ones({4}));
    count = register_buffer("count", torch::zeros({1}, torch::kInt64));
    register_module("head", head);
  }
  torch::Tensor table, count;
  torch::nn::Linear head{4, 2};
};

TEST(RunningStatistics, OtherBuffersGetTheType) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    WithTable net;
    tests::on_every_rank(1, [&](World& ranks) {
      Engine engine = attach(net, ranks, {.stage = 3, .dtype = dtype});
      const auto inputs = torch::ones({3, 4}, to_scalar_type(dtype));
      engine.scaled(1e-3 * net.head(inputs + net.table).to(torch::kFloat32).sum()).backward();
      EXPECT_FALSE(engine.step().skipped) << name_of(dtype);
      EXPECT_EQ(net.table.scalar_type(), to_scalar_type(dtype));
      EXPECT_EQ(net.count.scalar_type(), torch::kInt64);
    });
  }
}

TEST(RunningStatistics, EvaluationUsesThem) {
  ConvNet net;
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.stage = 3, .dtype = DType::kBFloat16});
    loss_of(net, 0, 0, 0).backward();
    engine.step();
    net.eval();
    const torch::NoGradGuard no_gradients;
    EXPECT_TRUE(std::isfinite(loss_of(net, 1, 0, 0).item<float>()));
  });
}

}  // namespace
}  // namespace zero
