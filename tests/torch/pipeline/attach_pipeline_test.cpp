#include "zero/torch/pipeline/attach_pipeline.h"

#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/torch/pipeline/own_processes.h"
#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::PipelinedRun;
using tests::Subject;
using tests::train_pipelined;

torch::Tensor numbers(int step, int micro, int rank, std::vector<std::int64_t> sizes) {
  std::int64_t numel = 1;
  for (const std::int64_t size : sizes) numel *= size;
  return (torch::arange(numel) * (2 * step + 3) + micro * 5 + rank * 11)
                 .remainder(17)
                 .to(torch::kFloat)
                 .reshape(sizes) /
             8 -
         1;
}

Subject mlp() {
  torch::nn::Sequential net;
  for (int i = 0; i < 5; ++i) {
    net->push_back(torch::nn::Linear(i == 0 ? 6 : 12, 12));
    net->push_back(torch::nn::Tanh());
  }
  net->push_back(torch::nn::Linear(12, 3));
  return {net.ptr(), [net](int step, int micro, int rank) mutable {
            const torch::Tensor x = numbers(step, micro, rank, {4, 6});
            return torch::mse_loss(net->forward(x), numbers(step + 1, micro, rank, {4, 3}));
          }};
}

// A list and a loop, whose second half adds the results of the first half, as in a U-Net. Every section uses the first
// result.
struct Skips : torch::nn::Module {
  Skips() {
    register_module("down", down);
    register_module("up", up);
    for (int i = 0; i < 3; ++i) down->push_back(torch::nn::Linear(8, 8));
    for (int i = 0; i < 3; ++i) up->push_back(torch::nn::Linear(8, 8));
    head = register_module("head", torch::nn::Linear(8, 2));
  }
  torch::Tensor forward(torch::Tensor x) {
    std::vector<torch::Tensor> kept;
    for (const auto& layer : *down) {
      x = torch::gelu(layer->as<torch::nn::LinearImpl>()->forward(x));
      kept.push_back(x);
    }
    const torch::Tensor first = kept.front();
    for (const auto& layer : *up) {
      x = torch::sigmoid(layer->as<torch::nn::LinearImpl>()->forward(x) + first * 0.5) + kept.back();
      kept.pop_back();
    }
    return head(x * first + x);
  }
  torch::nn::ModuleList down, up;
  torch::nn::Linear head{nullptr};
};

Subject skips() {
  auto net = std::make_shared<Skips>();
  return {net, [net](int step, int micro, int rank) {
            return torch::mse_loss(net->forward(numbers(step, micro, rank, {3, 8})),
                                   numbers(step, micro + 1, rank, {3, 2}));
          }};
}

// Layers on tokens, [batch, tokens, width], whose products are matmul(): with a bias, without one, on a tensor that is
// not contiguous, and by at::linear().
struct Tokens : torch::nn::Module {
  Tokens() {
    register_module("layers", layers);
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(16, 16).bias(i % 2 == 0)));
    head = register_module("head", torch::nn::Linear(16, 4));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& layer : *layers) {
      auto& linear = *layer->as<torch::nn::LinearImpl>();
      x = torch::gelu(linear.forward(x)) + x;
      x = torch::tanh(linear.bias.defined() ? x : x.transpose(0, 1).contiguous().transpose(0, 1));
    }
    return torch::linear(x, head->weight, head->bias);
  }
  torch::nn::ModuleList layers;
  torch::nn::Linear head{nullptr};
};

Subject tokens() {
  auto net = std::make_shared<Tokens>();
  return {net, [net](int step, int micro, int rank) {
            return torch::mse_loss(net->forward(numbers(step, micro, rank, {3, 5, 16})),
                                   numbers(step, micro + 1, rank, {3, 5, 4}));
          }};
}

struct Case {
  std::string name;
  tests::MakeSubject make;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all{{"mlp", mlp}, {"skips", skips}, {"tied", tests::tied_net}, {"tokens", tokens}};
  return all;
}

constexpr int kSteps = 5;

TEST(AttachPipeline, TwoAndThreeSectionsKeepBits) {
  for (const Case& subject : cases()) {
    for (const int micros : {1, 2, 4}) {
      const AttachOptions options{.stage = 0, .clip = 0.5, .accumulate = micros};
      const PipelinedRun plain = train_pipelined(1, kSteps, options, {.pipeline = 1}, subject.make);
      for (const int pipeline : {2, 3}) {
        SCOPED_TRACE(subject.name + ", " + std::to_string(pipeline) + " ranks, " + std::to_string(micros) + " micros");
        expect_same_bits(train_pipelined(pipeline, kSteps, options, {.pipeline = pipeline}, subject.make), plain);
      }
    }
  }
}

// Without a pipeline, passes() equals a program's own loop.
TEST(AttachPipeline, OnePositionEqualsAttach) {
  const AttachOptions options{.stage = 2, .clip = 0.5, .accumulate = 2};
  const PipelinedRun run = train_pipelined(2, kSteps, options, {.pipeline = 1}, tests::tied_net);
  const tests::RunResult plain = tests::train(2, kSteps, options, tests::tied_net);
  EXPECT_EQ(run.grad_norms, plain.grad_norms);
  ASSERT_EQ(run.given_back.size(), plain.given_back.size());
  for (std::size_t i = 0; i < plain.given_back.size(); ++i)
    EXPECT_TRUE(torch::equal(run.given_back[i], plain.given_back[i])) << "parameter " << i;
}

TEST(AttachPipeline, StagesOverShardsKeepBits) {
  for (const Case& subject : cases()) {
    for (const int stage : {0, 1, 2, 3}) {
      const AttachOptions options{.stage = stage, .clip = 0.5, .accumulate = 4};
      SCOPED_TRACE(subject.name + ", stage " + std::to_string(stage));
      const PipelinedRun plain = train_pipelined(2, kSteps, options, {.pipeline = 1}, subject.make);
      expect_same_bits(train_pipelined(4, kSteps, options, {.pipeline = 2}, subject.make), plain);
    }
  }
}

// A rank of SharedMemoryKeepsBits.
TEST(PipelineRank, KeepsBits) {
  const std::optional<int> rank = tests::rank_of_process();
  if (!rank) GTEST_SKIP() << "is a rank of a test of AttachPipeline";
  const AttachOptions options{.stage = 3, .clip = 0.5, .accumulate = 4};
  const PipelinedRun plain = train_pipelined(2, kSteps, options, {.pipeline = 1}, tests::tied_net);
  torch::set_num_threads(1);
  World world = tests::world_of_process(4);
  torch::manual_seed(7 + *rank);
  Subject subject = tests::tied_net();
  PipelinedRun mine = tests::train_rank(world, subject, kSteps, options, {.pipeline = 2});
  if (*rank % 2 == 1) mine.losses = plain.losses;  // data rank 1 has other samples
  expect_same_bits(mine, plain);
}

TEST(AttachPipeline, SharedMemoryKeepsBits) {
  tests::expect_processes_pass(4, "PipelineRank.KeepsBits");
}

TEST(AttachPipeline, OrdersKeepBits) {
  const AttachOptions options{.stage = 1, .accumulate = 4};
  for (const Case& subject : cases()) {
    const PipelinedRun plain = train_pipelined(1, kSteps, options, {.pipeline = 1}, subject.make);
    for (const PipelineOptions& pipeline :
         {PipelineOptions{.pipeline = 2, .schedule = PassOrder::kGpipe},
          PipelineOptions{.pipeline = 2, .schedule = PassOrder::kZbH1},
          PipelineOptions{.pipeline = 2, .schedule = PassOrder::kZbH2},
          PipelineOptions{.pipeline = 2, .schedule = PassOrder::kZbV},
          PipelineOptions{.pipeline = 2, .sections = 4, .schedule = PassOrder::kInterleaved}}) {
      const bool needs_four = pipeline.sections > 3 || pipeline.schedule == PassOrder::kZbV;
      if (subject.name == "tied" && needs_four) continue;  // the tied net has too few parts
      SCOPED_TRACE(subject.name + ", " + std::string(name_of(pipeline.schedule)));
      expect_same_bits(train_pipelined(2, kSteps, options, pipeline, subject.make), plain);
    }
  }
}

// The two models with six parts or more.
TEST(AttachPipeline, OrdersOfLongLinesKeepBits) {
  const AttachOptions options{.stage = 1, .accumulate = 6};
  for (const tests::MakeSubject& make : {tests::MakeSubject(mlp), tests::MakeSubject(skips)}) {
    const PipelinedRun plain = train_pipelined(1, kSteps, options, {.pipeline = 1}, make);
    for (const PipelineOptions& pipeline :
         {PipelineOptions{.pipeline = 4, .schedule = PassOrder::kGpipe}, PipelineOptions{.pipeline = 4, .depth = 1},
          PipelineOptions{.pipeline = 4, .schedule = PassOrder::kZbH1},
          PipelineOptions{.pipeline = 4, .schedule = PassOrder::kZbH2},
          PipelineOptions{.pipeline = 3, .schedule = PassOrder::kZbV},
          PipelineOptions{.pipeline = 3, .sections = 6, .schedule = PassOrder::kInterleaved}}) {
      SCOPED_TRACE(std::string(name_of(pipeline.schedule)) + " of " + std::to_string(pipeline.pipeline));
      expect_same_bits(train_pipelined(pipeline.pipeline, kSteps, options, pipeline, make), plain);
    }
  }
}

TEST(AttachPipeline, CutsKeepBits) {
  const AttachOptions options{.stage = 2, .accumulate = 4};
  const PipelinedRun plain = train_pipelined(2, kSteps, options, {.pipeline = 1}, mlp);
  const PipelineOptions measured{.pipeline = 2, .cut = CutBy::kSeconds};
  expect_same_bits(train_pipelined(4, kSteps, options, measured, mlp), plain);
  const PipelineOptions named{.pipeline = 3, .first_units = {"2", "10"}};  // layers of a Sequential have numbers
  const PipelinedRun cut = train_pipelined(6, kSteps, options, named, mlp);
  expect_same_bits(cut, plain);
  EXPECT_NE(cut.text.find("section 2 on rank 2 of a line: 3 operators, 39 parameters"), std::string::npos) << cut.text;
}

// Whatever the measurements say, all ranks take the same order.
TEST(AttachPipeline, AutoKeepsBits) {
  const AttachOptions options{.stage = 1, .accumulate = 6};
  for (const Case& subject : cases())
    for (const int pipeline : {2, 3}) {
      if (subject.name == "tied" && pipeline == 3) continue;  // too few parts
      SCOPED_TRACE(subject.name);
      const PipelinedRun plain = train_pipelined(2, kSteps, options, {.pipeline = 1}, subject.make);
      const PipelinedRun cut = train_pipelined(2 * pipeline, kSteps, options,
                                               {.pipeline = pipeline, .schedule = PassOrder::kAuto}, subject.make);
      expect_same_bits(cut, plain);
      EXPECT_NE(cut.text.find("  chosen\n"), std::string::npos) << cut.text;
    }
}

// Every rank sends the planned bytes: values, gradients with their strides, and its section's reductions.
TEST(AttachPipeline, SendsThePlannedBytes) {
  for (const PipelineOptions& pipeline :
       {PipelineOptions{.pipeline = 2},
        PipelineOptions{.pipeline = 2, .sections = 4, .schedule = PassOrder::kInterleaved}}) {
    tests::on_every_rank(4, [&](World& world) {
      const Subject subject = skips();
      PipelineEngine engine = attach_pipeline(*subject.module, world, {.stage = 1, .accumulate = 4}, pipeline);
      for (int step = 0; step < 2; ++step) {
        engine.passes([&](int micro) { return subject.loss(step, micro, world.rank() % 2); });
        engine.step(1e-2);
      }
      const EngineReport report = engine.report();
      EXPECT_GT(report.planned_sent_bytes, 0);
      EXPECT_NEAR(static_cast<double>(report.sent_bytes_per_step) / static_cast<double>(report.planned_sent_bytes), 1,
                  0.02);
    });
  }
}

// The lookup is computed on the rank of the head, so the table exists once.
TEST(AttachPipeline, TiedParametersHaveOneHome) {
  const PipelinedRun run = train_pipelined(2, 1, {.stage = 0, .accumulate = 2}, {.pipeline = 2}, tests::tied_net);
  EXPECT_TRUE(says(run.text, "section 0 on rank 1 of a line")) << run.text;
  EXPECT_TRUE(says(run.text, "lookups of tied parameters")) << run.text;
  EXPECT_TRUE(says(run.text, "rank 1 of a line: F0.0 F1.0 F0.2 B0.2 F1.2 B1.2 B0.0 B1.0")) << run.text;
}

std::string refusal(const std::function<torch::Tensor(torch::nn::Sequential&, torch::Tensor)>& loss,
                    PipelineOptions pipeline = {.pipeline = 2}) {
  return message_of<ConfigError>([&] {
    tests::on_every_rank(2, [&](World& world) {
      torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
      PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0}, pipeline);
      engine.passes([&](int) { return loss(net, torch::ones({2, 4})); });
    });
  });
}

TEST(AttachPipeline, ReadsOfValuesAreRefused) {
  const std::string item = refusal([](torch::nn::Sequential& net, const torch::Tensor& x) {
    const torch::Tensor y = net->forward(x);
    return y.mean() / std::max(1.0, y.max().item<double>());
  });
  EXPECT_TRUE(says(item, "passes = aten::_local_scalar_dense: it needs values of a tensor that one section has"));
  EXPECT_TRUE(says(item, "; it comes after operator ") && says(item, "and after the use of 1.weight\n")) << item;
  const std::string mask = refusal([](torch::nn::Sequential& net, const torch::Tensor& x) {
    const torch::Tensor y = net->forward(x);
    return y.index({y > 0}).mean();
  });
  EXPECT_TRUE(says(mask, "passes = aten::index: it needs values of a tensor that one section has")) << mask;
  const std::string first = refusal([](torch::nn::Sequential& net, const torch::Tensor& x) {
    return x.sum() * net[0]->as<torch::nn::Linear>()->weight.sum().item<double>();
  });
  EXPECT_TRUE(says(first, "and after the use of 0.weight\n")) << first;
}

// The sections are known, so they are named.
TEST(AttachPipeline, ReadsInEvaluationsNameTheSection) {
  tests::on_every_rank(2, [](World& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
    PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0}, {.pipeline = 2});
    engine.prepare([&](int) { return net->forward(torch::ones({2, 4})).sum(); });
    for (const int layer : {0, 1}) {
      const std::string text = message_of<ConfigError>([&] {
        engine.evaluate([&] {
          torch::Tensor y = net[0]->as<torch::nn::Linear>()->forward(torch::ones({2, 4}));
          if (layer == 1) y = net[1]->as<torch::nn::Linear>()->forward(y);
          return std::vector{y * y.max().item<double>()};
        });
      });
      const std::string number = std::to_string(layer);
      EXPECT_TRUE(says(text, "after the use of " + number + ".") && says(text, " in section " + number + "\n")) << text;
    }
  });
}

// After learning, only rank 1 has values of section 1.
TEST(AttachPipeline, LateReadsNameTheSection) {
  const std::string text = message_of<c10::Error>([] {
    tests::on_every_rank(2, [](World& world) {
      torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
      PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0}, {.pipeline = 2});
      const auto loss = [&] { return net->forward(torch::ones({2, 4})).sum(); };
      engine.prepare([&](int) { return loss(); });
      engine.passes([&](int) {
        torch::Tensor value = loss();
        if (value.item<double>() > 1e6) value = value.detach();
        return value;
      });
    });
  });
  EXPECT_TRUE(says(text, " in section 1: another section of the pipeline has this tensor")) << text;
}

TEST(AttachPipeline, MemoryOfAbsentTensorsIsRefused) {
  tests::on_every_rank(2, [&](World& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
    PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0}, {.pipeline = 2});
    const std::string text = message_of<c10::Error>([&] {
      engine.passes([&](int) {
        const torch::Tensor y = net->forward(torch::ones({2, 4}));
        return y.sum() * *y.const_data_ptr<float>();
      });
    });
    EXPECT_TRUE(says(text, "aten::addmm: another section of the pipeline has this tensor")) << text;
  });
}

TEST(AttachPipeline, DrawsByValuesAreRefused) {
  EXPECT_TRUE(says(refusal([](torch::nn::Sequential& net, const torch::Tensor& x) {
                     return torch::poisson(net->forward(x).abs()).sum();
                   }),
                   "passes = aten::poisson: how many random numbers it draws depends on values"));
  auto own = at::detail::createCPUGenerator(3);
  EXPECT_TRUE(says(refusal([&](torch::nn::Sequential& net, const torch::Tensor& x) {
                     return (net->forward(x) + at::rand({4}, own)).sum();
                   }),
                   "passes = aten::rand: it draws from a generator of the program"));
}

TEST(AttachPipeline, BuffersMayNotBeWritten) {
  const torch::Tensor counter = torch::zeros({1});
  EXPECT_TRUE(says(refusal([&](torch::nn::Sequential& net, const torch::Tensor& x) {
                     counter.add_(1);
                     return net->forward(x).sum();
                   }),
                   "passes = aten::add_: it writes a tensor that is older than the pass"));
}

// The second section's bias has a gradient of NaN, and the loss is finite. Runs in its own process, whose log shows
// warnings in any environment.
TEST(AttachPipeline, SkippedStepNamesTheCause) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto skip_and_read_log = [] {
    ::setenv("ZERO_LOG_LEVEL", "warn", 1);
    testing::internal::CaptureStderr();
    tests::on_every_rank(2, [](World& world) {
      torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
      PipelineEngine engine = attach_pipeline(*net, world, {.stage = 1}, {.pipeline = 2});
      engine.passes([&](int) {
        const torch::Tensor y = net->forward(torch::ones({2, 4}));
        return y.sum() + torch::sqrt(net[1]->as<torch::nn::LinearImpl>()->bias * 0).sum();
      });
      engine.step(1e-2);
    });
    const std::string log = testing::internal::GetCapturedStderr();
    const bool names_both = says(log, "a step is skipped: a gradient of another section is not finite") &&
                            says(log, "a step is skipped: the gradient of 1.bias is not finite");
    std::exit(names_both ? 0 : 1);
  };
  EXPECT_EXIT(skip_and_read_log(), testing::ExitedWithCode(0), "");
}

// Autograd refuses such a write without a pipeline. Here a pass of weights needs the first values of `x`.
TEST(AttachPipeline, WritesAfterProductsAreRefused) {
  const std::string text = message_of<ConfigError>([] {
    tests::on_every_rank(2, [](World& world) {
      torch::nn::Sequential net;
      for (int i = 0; i < 3; ++i) net->push_back(torch::nn::Linear(4, 4));
      const auto layer = [&](std::size_t i, const torch::Tensor& x) {
        return net[i]->as<torch::nn::LinearImpl>()->forward(x);
      };
      PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0, .accumulate = 2},
                                              {.pipeline = 2, .schedule = PassOrder::kZbH1, .first_units = {"2"}});
      engine.passes([&](int) {
        torch::Tensor x = layer(0, torch::ones({2, 4}));
        const torch::Tensor y = layer(1, x);
        x.mul_(2);
        return layer(2, x + y).sum();
      });
    });
  });
  EXPECT_TRUE(says(text, "passes = aten::addmm [4] [2, 4] [4, 4]: the input of this product was written in place"))
      << text;
}

TEST(AttachPipeline, MoreSectionsThanPartsAreRefused) {
  EXPECT_TRUE(says(refusal([](torch::nn::Sequential& net, const torch::Tensor& x) { return net->forward(x).sum(); },
                           {.pipeline = 2, .sections = 4, .schedule = PassOrder::kInterleaved}),
                   "train.accumulate = 1"));
  const std::string few = message_of<ConfigError>([] {
    tests::on_every_rank(3, [](World& world) {
      torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
      PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0}, {.pipeline = 3});
      engine.passes([&](int) { return net->forward(torch::ones({2, 4})).sum(); });
    });
  });
  EXPECT_EQ(few,
            "parallel.sections = 3: the model can be cut into at most 2 sections with parameters of their own\n"
            "  use at most 2; a parameter that several parts use keeps them together, and so does an activation "
            "checkpoint");
}

TEST(AttachPipeline, OtherOperatorsThanPlannedAreRefused) {
  const std::string text = message_of<ConfigError>([&] {
    tests::on_every_rank(2, [&](World& world) {
      torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
      PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0}, {.pipeline = 2});
      int mine = 0;
      engine.passes([&](int) {
        const torch::Tensor x = torch::ones({2, 4});
        return ++mine == 1 ? net->forward(x).sum() : net->forward(torch::tanh(x)).sum();
      });
    });
  });
  EXPECT_TRUE(says(text,
                   "passes = aten::tanh [2, 4]: operator 1 of the forward pass of micro-batch 0, and planned was "
                   "aten::addmm [4] [2, 4] [4, 4]"))
      << text;
}

TEST(AttachPipeline, ImpossibleOptionsAreRefused) {
  const auto attach_to = [](int world, const AttachOptions& options, const PipelineOptions& pipeline) {
    return message_of<ConfigError>([&] {
      tests::on_every_rank(world, [&](World& ranks) {
        torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
        attach_pipeline(*net, ranks, options, pipeline);
      });
    });
  };
  EXPECT_EQ(attach_to(3, {.stage = 0}, {.pipeline = 2}),
            "parallel.pipeline = 2: it must divide the number of ranks, which is 3\n"
            "  use a divisor of that number; 1: no pipeline");
  EXPECT_TRUE(says(attach_to(2, {.stage = 0, .delayed_update = true}, {.pipeline = 2}), "zero.delayed_update = true"));
  const AttachOptions coded{.stage = 1, .group = 1, .wire = {.outer = WireCodec::kInt8}};
  EXPECT_EQ(attach_to(4, coded, {.pipeline = 2}),
            "comm.outer_wire = int8: a pipeline does not support this option yet\n"
            "  leave it out, or set parallel.pipeline = 1");
}

AttachOptions with_group(const std::string& module) {
  AttachOptions options{.stage = 0, .accumulate = 2};
  options.groups = {{.matches = [module](const ParamSpec& spec) { return spec.name.starts_with(module); },
                     .lr_scale = 0,
                     .name = module + "*"},
                    {.matches = [](const ParamSpec&) { return true; }}};
  return options;
}

// A group counts if any section has one of its parameters.
TEST(AttachPipeline, GroupsWithoutParametersAreRefused) {
  for (const int pipeline : {1, 2}) {
    const auto make = [] { return mlp(); };
    const std::string text =
        message_of<ConfigError>([&] { train_pipelined(2, 1, with_group("typo"), {.pipeline = pipeline}, make); });
    EXPECT_TRUE(says(text, "optimizer.group = typo*: no parameter of the model has such a name")) << text;
    EXPECT_EQ(train_pipelined(2, 1, with_group("0."), {.pipeline = pipeline}, make).grad_norms.size(), 1U);
  }
}

}  // namespace
}  // namespace zero
