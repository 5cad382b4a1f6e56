// Buffers that a forward pass writes, such as the running statistics of norms, over the sections of a pipeline.
#include <fstream>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/torch/activations/checkpoint.h"
#include "zero/torch/deferred/deferred.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using tests::PipelinedRun;
using tests::Subject;

torch::Tensor numbers(int step, int micro, int rank, const std::vector<std::int64_t>& sizes) {
  std::int64_t numel = 1;
  for (const std::int64_t size : sizes) numel *= size;
  const torch::Tensor whole = torch::arange(numel) * (2 * step + 3) + micro * 5 + rank * 11;
  return whole.remainder(17).to(torch::kFloat).reshape(sizes) / 8 - 1;
}

// Residual blocks of convolutions and batch norms.
struct ResidualNet : torch::nn::Module {
  static constexpr int kBlocks = 3, kWidth = 4;
  ResidualNet() : stem(torch::nn::Conv2dOptions(2, kWidth, 3).padding(1).bias(false)), first(kWidth), head(kWidth, 3) {
    register_module("stem", stem);
    register_module("first", first);
    for (int i = 0; i < 2 * kBlocks; ++i) {
      convolutions->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(kWidth, kWidth, 3).padding(1).bias(false)));
      norms->push_back(torch::nn::BatchNorm2d(kWidth));
    }
    register_module("convolutions", convolutions);
    register_module("norms", norms);
    register_module("head", head);
  }
  torch::Tensor part(std::size_t i, const torch::Tensor& x) {
    return norms[i]->as<torch::nn::BatchNorm2dImpl>()->forward(
        convolutions[i]->as<torch::nn::Conv2dImpl>()->forward(x));
  }
  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = torch::relu(first(stem(images)));
    for (std::size_t block = 0; block < kBlocks; ++block)
      x = torch::relu(x + part(2 * block + 1, torch::relu(part(2 * block, x))));
    return head(x.mean({2, 3}));
  }
  torch::nn::Conv2d stem;
  torch::nn::BatchNorm2d first;
  torch::nn::ModuleList convolutions, norms;
  torch::nn::Linear head;
};

Subject residual_net() {
  auto net = std::make_shared<ResidualNet>();
  return {net, [net](int step, int micro, int rank) {
            return torch::mse_loss(net->forward(numbers(step, micro, rank, {3, 2, 5, 5})),
                                   numbers(step + 1, micro, rank, {3, 3}));
          }};
}

// Norms without parameters, with a cumulative mean, with one norm at two places, over instances, and without
// statistics.
struct ManyNorms : torch::nn::Module {
  ManyNorms()
      : plain(torch::nn::BatchNorm1dOptions(6).affine(false)),
        cumulative(torch::nn::BatchNorm1dOptions(6).momentum(std::nullopt)),
        twice(6),
        instances(torch::nn::InstanceNorm1dOptions(6).affine(true).track_running_stats(true)),
        stateless(torch::nn::BatchNorm1dOptions(6).track_running_stats(false)) {
    for (int i = 0; i < 6; ++i) layers->push_back(torch::nn::Linear(6, 6));
    register_module("layers", layers);
    register_module("plain", plain);
    register_module("cumulative", cumulative);
    register_module("twice", twice);
    register_module("instances", instances);
    register_module("stateless", stateless);
  }
  torch::Tensor layer(std::size_t i, const torch::Tensor& x) {
    return layers[i]->as<torch::nn::LinearImpl>()->forward(x);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::gelu(plain(layer(0, x)));
    x = torch::gelu(cumulative(layer(1, x)));
    x = twice(torch::gelu(twice(layer(2, x))));
    x = torch::gelu(layer(3, x));
    x = x + instances(layer(4, x).view({2, 6, 4})).reshape({8, 6});
    return stateless(layer(5, x)) * 0.5;
  }
  torch::nn::ModuleList layers;
  torch::nn::BatchNorm1d plain, cumulative, twice;
  torch::nn::InstanceNorm1d instances;
  torch::nn::BatchNorm1d stateless;
};

Subject many_norms() {
  auto net = std::make_shared<ManyNorms>();
  return {net, [net](int step, int micro, int rank) {
            return torch::mse_loss(net->forward(numbers(step, micro, rank, {8, 6})),
                                   numbers(step, micro + 1, rank, {8, 6}));
          }};
}

// Three buffers: one is read, then written from the model's tensors. One is a count of passes that scales values in all
// sections. One is a mean of the inputs.
struct OwnBuffers : torch::nn::Module {
  OwnBuffers() {
    for (int i = 0; i < 6; ++i) layers->push_back(torch::nn::Linear(6, 6));
    register_module("layers", layers);
    center = register_buffer("center", torch::zeros({6}));
    count = register_buffer("count", torch::zeros({}, torch::kLong));
    inputs = register_buffer("inputs", torch::zeros({6}));
  }
  torch::Tensor forward(torch::Tensor x) {
    count.add_(1);
    inputs.mul_(0.5).add_(x.mean(0));
    const double scale = 1 + 1.0 / static_cast<double>(count.item<std::int64_t>());
    for (std::size_t i = 0; i < 6; ++i) {
      x = torch::tanh(layers[i]->as<torch::nn::LinearImpl>()->forward(x)) * scale;
      if (i != 3) continue;
      x = x - center;
      const torch::NoGradGuard no_gradients;
      center.mul_(0.75).add_(x.detach().mean(0), 0.25);
    }
    return x + inputs.clone();
  }
  torch::nn::ModuleList layers;
  torch::Tensor center, count, inputs;
};

Subject own_buffers() {
  auto net = std::make_shared<OwnBuffers>();
  return {net, [net](int step, int micro, int rank) {
            return torch::mse_loss(net->forward(numbers(step, micro, rank, {4, 6})),
                                   numbers(step, micro + 1, rank, {4, 6}));
          }};
}

using Buffers = std::map<std::string, torch::Tensor>;

Buffers buffers_of(const torch::nn::Module& module) {
  Buffers found;
  for (const auto& item : module.named_buffers()) found[item.key()] = item.value().clone();
  return found;
}

void expect_equal(const Buffers& found, const Buffers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(torch::equal(found.at(name), tensor)) << name;
}

struct RankRun {
  PipelinedRun run;
  Buffers buffers;
};

std::vector<Subject> subjects_of(int world, const tests::MakeSubject& make) {
  std::vector<Subject> subjects;
  for (int rank = 0; rank < world; ++rank) {
    torch::manual_seed(7 + rank);  // all threads share the generator
    subjects.push_back(make());
  }
  return subjects;
}

constexpr int kSteps = 3;

// Returns what each rank has at the end.
std::vector<RankRun> train_all(int world, const AttachOptions& options, const PipelineOptions& pipeline,
                               const tests::MakeSubject& make) {
  std::vector<Subject> subjects = subjects_of(world, make);
  std::vector<RankRun> runs(subjects.size());
  tests::on_every_rank(world, [&](World& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    runs[rank].run = tests::train_rank(ranks, subjects[rank], kSteps, options, pipeline);
    runs[rank].buffers = buffers_of(*subjects[rank].module);
  });
  return runs;
}

// Compares each rank of a line with the rank of a run without a pipeline that has the same samples.
void expect_same_bits(const std::vector<RankRun>& cut, const std::vector<RankRun>& plain) {
  for (std::size_t rank = 0; rank < cut.size(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const RankRun& expected = plain[rank % plain.size()];
    tests::expect_same_bits(cut[rank].run, expected.run);
    expect_equal(cut[rank].buffers, expected.buffers);
  }
}

std::vector<PipelineOptions> orders_of(int pipeline) {
  return {{.pipeline = pipeline},
          {.pipeline = pipeline, .schedule = PassOrder::kGpipe},
          {.pipeline = pipeline, .sections = 2 * pipeline, .schedule = PassOrder::kInterleaved},
          {.pipeline = pipeline, .schedule = PassOrder::kZbH1},
          {.pipeline = pipeline, .schedule = PassOrder::kZbH2},
          {.pipeline = pipeline, .schedule = PassOrder::kZbV}};
}

TEST(PipelineBuffers, OrdersKeepBitsOfResidualNets) {
  for (const int lines : {1, 2}) {
    const AttachOptions options{.stage = lines == 1 ? 0 : 2, .clip = 0.5, .accumulate = 6};
    const std::vector<RankRun> plain = train_all(lines, options, {.pipeline = 1}, residual_net);
    if (lines == 2) {
      EXPECT_FALSE(torch::equal(plain[0].buffers.at("first.running_mean"), plain[1].buffers.at("first.running_mean")))
          << "ranks have statistics of their own samples";
    }
    EXPECT_EQ(plain[0].buffers.at("first.num_batches_tracked").item<int>(), kSteps * 6);
    for (const int pipeline : {2, 3})
      for (const PipelineOptions& order : orders_of(pipeline)) {
        SCOPED_TRACE(std::to_string(lines) + " lines of " + std::to_string(pipeline) + ", " +
                     std::string(name_of(order.schedule)));
        expect_same_bits(train_all(lines * pipeline, options, order, residual_net), plain);
      }
  }
}

TEST(PipelineBuffers, AllKindsOfBuffersKeepBits) {
  for (const auto& make : {&many_norms, &own_buffers}) {
    const AttachOptions options{.stage = 1, .accumulate = 4};
    const std::vector<RankRun> plain = train_all(2, options, {.pipeline = 1}, make);
    for (const PipelineOptions& order : orders_of(2)) {
      SCOPED_TRACE(std::string(make == &many_norms ? "norms, " : "buffers, ") + std::string(name_of(order.schedule)));
      expect_same_bits(train_all(4, options, order, make), plain);
    }
    expect_same_bits(train_all(6, options, {.pipeline = 3}, make), plain);
  }
}

// Statistics and parameters of norms stay in fp32.
TEST(PipelineBuffers, HalfPrecisionKeepsBits) {
  const auto make = [] {
    auto net = std::make_shared<ResidualNet>();
    return Subject{net, [net](int step, int micro, int rank) {
                     const torch::Tensor x = numbers(step, micro, rank, {3, 2, 5, 5}).to(torch::kBFloat16);
                     return torch::mse_loss(net->forward(x).to(torch::kFloat), numbers(step + 1, micro, rank, {3, 3}));
                   }};
  };
  const AttachOptions options{.stage = 3, .accumulate = 4, .dtype = DType::kBFloat16};
  const std::vector<RankRun> plain = train_all(2, options, {.pipeline = 1}, make);
  EXPECT_EQ(plain[0].buffers.at("first.running_var").scalar_type(), torch::kFloat);
  for (const PassOrder order : {PassOrder::kOneForwardOneBackward, PassOrder::kZbV})
    expect_same_bits(train_all(4, options, {.pipeline = 2, .schedule = order}, make), plain);
}

// Buffers of such a module are built when the sections are attached.
TEST(PipelineBuffers, DeferredModulesKeepBits) {
  const auto make = [] {
    auto net = deferred([] { return std::make_shared<ResidualNet>(); });
    return Subject{net, [net](int step, int micro, int rank) {
                     return torch::mse_loss(net->forward(numbers(step, micro, rank, {3, 2, 5, 5})),
                                            numbers(step + 1, micro, rank, {3, 3}));
                   }};
  };
  const AttachOptions options{.stage = 3, .accumulate = 4};
  expect_same_bits(train_all(4, options, {.pipeline = 2}, make), train_all(2, options, {.pipeline = 1}, make));
}

// After two steps: an evaluation in each mode, a checkpoint, and a file of weights.
struct Used {
  std::vector<double> losses;
  Buffers between;  // after the steps
  Buffers trained;  // after an evaluation in training mode
  Buffers loaded;
};

Used use_statistics(World& world, Subject& subject, int pipeline, const std::filesystem::path& saved,
                    const std::filesystem::path& to_load) {
  const int line = world.rank() % (world.size() / pipeline);
  PipelineEngine engine =
      attach_pipeline(*subject.module, world, {.stage = 1, .accumulate = 4}, {.pipeline = pipeline});
  Used used;
  for (int step = 0; step < 2; ++step) {
    engine.passes([&](int micro) { return subject.loss(step, micro, line); }, 4);
    engine.step(1e-2);
  }
  used.between = buffers_of(*subject.module);
  engine.save(saved);
  engine.export_weights(saved.string() + ".safetensors");
  for (const bool trains : {false, true, false}) {
    subject.module->train(trains);
    used.losses.push_back(
        engine.evaluate({trains ? 1 : 0}, [&] { return std::vector{subject.loss(9, 0, line)}; })[0].item<double>());
    if (trains) used.trained = buffers_of(*subject.module);
  }
  subject.module->train();
  if (!to_load.empty()) {
    engine.load(to_load);
    used.loaded = buffers_of(*subject.module);
  }
  return used;
}

std::vector<Used> use_all(int world, int pipeline, const std::filesystem::path& saved,
                          const std::filesystem::path& to_load) {
  std::vector<Subject> subjects = subjects_of(world, residual_net);
  std::vector<Used> used(subjects.size());
  tests::on_every_rank(world, [&](World& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    used[rank] = use_statistics(ranks, subjects[rank], pipeline, saved, to_load);
  });
  return used;
}

// Two ranks without a pipeline, and two lines. Each loads the checkpoint of the other.
TEST(PipelineBuffers, EvaluationsAndCheckpointsHaveStatistics) {
  const TemporaryFolder folder;
  const auto plain_path = folder / "plain", cut_path = folder / "cut";
  const std::vector<Used> plain = use_all(2, 1, plain_path, "");
  const std::vector<Used> cut = use_all(4, 2, cut_path, plain_path);
  const std::vector<Used> again = use_all(2, 1, folder / "again", cut_path);
  const std::vector<Used> three = use_all(3, 3, folder / "three", cut_path);
  for (std::size_t rank = 0; rank < cut.size(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const Used& expected = plain[rank % 2];
    EXPECT_EQ(cut[rank].losses, expected.losses);
    EXPECT_NE(expected.losses[0], expected.losses[2]) << "an evaluation in training mode updates statistics";
    expect_equal(cut[rank].between, expected.between);
    expect_equal(cut[rank].trained, expected.trained);
    expect_equal(cut[rank].loaded, expected.between);
    expect_equal(again[rank % 2].loaded, expected.between);
  }
  for (const Used& rank : three) expect_equal(rank.loaded, plain[0].between);
  const auto contents = [](const std::filesystem::path& path) {
    std::ifstream file(path.string() + ".safetensors", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(contents(cut_path), contents(plain_path));
  EXPECT_NE(contents(cut_path).find("norms.5.running_var"), std::string::npos);
}

// Returns the error of a pass of `net` over two ranks.
template <typename Net>
std::string refusal(const std::function<torch::Tensor(Net&, torch::Tensor)>& loss) {
  return message_of<ConfigError>([&] {
    tests::on_every_rank(2, [&](World& world) {
      Net net;
      PipelineEngine engine = attach_pipeline(net, world, {.stage = 0, .accumulate = 2}, {.pipeline = 2});
      engine.passes([&](int) { return loss(net, torch::ones({8, 6})); });
    });
  });
}

TEST(PipelineBuffers, StatisticsInCheckpointsAreRefused) {
  const std::string text = refusal<ManyNorms>([](ManyNorms& net, const torch::Tensor& x) {
    const std::function<at::Tensor(const std::vector<at::Tensor>&)> run = [&](const std::vector<at::Tensor>& in) {
      return net.plain(net.layer(1, in[0]));
    };
    return net.layer(2, checkpoint(run, {net.layer(0, x)})).sum();
  });
  EXPECT_EQ(text.substr(0, text.find(',')), "passes = aten::add_: it uses plain.num_batches_tracked") << text;
  EXPECT_TRUE(says(text, "inside an activation checkpoint: the second run comes after other micro-batches"));
}

TEST(PipelineBuffers, ValuesOfStatisticsAreRefused) {
  const std::string text = refusal<ManyNorms>([](ManyNorms& net, const torch::Tensor& x) {
    const double mean = net.plain->running_mean[0].item<double>();
    return (net.layer(1, net.plain(net.layer(0, x))) * mean).sum();
  });
  EXPECT_TRUE(says(text, "passes = aten::_local_scalar_dense: it needs values of a tensor that one section has"))
      << text;
}

// The next micro-batch writes the factor before the backward pass of this one.
TEST(PipelineBuffers, BuffersKeptForBackwardAreRefused) {
  const std::string text = refusal<OwnBuffers>([](OwnBuffers& net, const torch::Tensor& x) {
    net.inputs.add_(1);
    return (net.forward(x) * net.inputs).sum();
  });
  EXPECT_TRUE(
      says(text, "passes = aten::mul: its backward pass needs the values of inputs, which the next micro-batch"))
      << text;
}

TEST(PipelineBuffers, OtherModesOfEvaluationAreRefused) {
  const std::string text = message_of<ConfigError>([] {
    tests::on_every_rank(2, [](World& world) {
      torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
      const torch::Tensor mean = net->register_buffer("mean", torch::zeros({4}));
      const torch::Tensor variance = net->register_buffer("variance", torch::ones({4}));
      const auto forward = [&](bool trains) {
        return torch::batch_norm(net->forward(torch::ones({2, 4})), {}, {}, mean, variance, trains, 0.1, 1e-5, false);
      };
      PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0}, {.pipeline = 2});
      engine.passes([&](int) { return forward(false).sum(); });
      engine.evaluate({1}, [&] { return std::vector{forward(false)}; });
      engine.evaluate({1}, [&] { return std::vector{forward(true)}; });
    });
  });
  EXPECT_TRUE(says(text, "it updates running statistics, and the planned pass did not")) << text;
}

}  // namespace
}  // namespace zero
