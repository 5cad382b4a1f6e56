// Gradients of a pipelined module against finite differences of its loss in double precision, without autograd and
// without a pipeline. The modules have skips over sections, a tied embedding, activation checkpoints, and delayed
// gradients of weights.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "zero/torch/activations/checkpoint.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

constexpr int kMicros = 3;
constexpr double kEpsilon = 1e-5, kTolerance = 2e-5;

// The input of a micro-batch, between -1 and 1, of the same type as the weights.
torch::Tensor input_like(const torch::Tensor& weight, int micro, std::vector<std::int64_t> sizes) {
  std::int64_t numel = 1;
  for (const std::int64_t size : sizes) numel *= size;
  return ((torch::arange(numel) * 7 + micro * 5).remainder(17).to(weight.scalar_type()) / 8 - 1).reshape(sizes);
}

struct Form : torch::nn::Module {
  virtual torch::Tensor loss(int micro) = 0;
  bool repeats = true;  // false: activation checkpoints call their function once
};

// The second half adds the results of the first half, across sections.
struct SkipForm : Form {
  SkipForm() {
    register_module("layers", layers);
    for (int i = 0; i < 6; ++i) layers->push_back(torch::nn::Linear(5, 5));
  }
  torch::Tensor layer(std::size_t i, const torch::Tensor& x) {
    return layers[i]->as<torch::nn::LinearImpl>()->forward(x);
  }
  torch::Tensor loss(int micro) override {
    torch::Tensor x = input_like(parameters().front(), micro, {3, 5});
    std::vector<torch::Tensor> kept;
    for (std::size_t i = 0; i < 3; ++i) kept.push_back(x = torch::tanh(layer(i, x)));
    for (std::size_t i = 3; i < 6; ++i) {
      x = torch::sigmoid(layer(i, x) + kept.front() * 0.5) * kept.back() + x;
      kept.pop_back();
    }
    return x.pow(2).mean();
  }
  torch::nn::ModuleList layers;
};

// Embedding and head share a matrix.
struct TiedForm : Form {
  TiedForm() : table(7, 5), first(5, 5), second(5, 5) {
    register_module("table", table);
    register_module("first", first);
    register_module("second", second);
  }
  torch::Tensor loss(int micro) override {
    const torch::Tensor tokens = (torch::arange(8) * 3 + micro).remainder(7);
    torch::Tensor x = torch::tanh(first(table(tokens)));
    x = x + torch::tanh(second(x));
    return torch::cross_entropy_loss(torch::matmul(x, table->weight.t()), tokens.roll(1));
  }
  torch::nn::Embedding table;
  torch::nn::Linear first, second;
};

// Each pair of layers is an activation checkpoint, with normalised inputs.
struct CheckpointForm : Form {
  CheckpointForm() {
    register_module("layers", layers);
    register_module("norm", norm);
    for (int i = 0; i < 6; ++i) layers->push_back(torch::nn::Linear(5, 5));
  }
  torch::Tensor layer(std::size_t i, const torch::Tensor& x) {
    return layers[i]->as<torch::nn::LinearImpl>()->forward(x);
  }
  torch::Tensor loss(int micro) override {
    torch::Tensor x = norm(input_like(parameters().front(), micro, {3, 5}));
    for (std::size_t pair = 0; pair < 3; ++pair) {
      const std::function<at::Tensor(const std::vector<at::Tensor>&)> run = [&,
                                                                             pair](const std::vector<at::Tensor>& in) {
        return torch::gelu(layer(2 * pair + 1, torch::tanh(layer(2 * pair, in[0])))) + in[0];
      };
      x = repeats ? checkpoint(run, {x}) : run({x});
    }
    return (x * x).mean();
  }
  torch::nn::ModuleList layers;
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({5})};
};

using MakeForm = std::function<std::shared_ptr<Form>()>;
using Values = std::map<std::string, torch::Tensor>;

Values weights_of(Form& form) {
  Values values;
  for (const auto& item : form.named_parameters())
    values[item.key()] = item.value().detach().to(torch::kDouble).clone();
  return values;
}

// One step of plain SGD with rate 1 subtracts the gradient.
Values pipelined_gradients(const MakeForm& make, const PipelineOptions& pipeline, int stage) {
  std::vector<std::shared_ptr<Form>> forms;
  for (int rank = 0; rank < pipeline.pipeline; ++rank) {
    torch::manual_seed(3);
    forms.push_back(make());
  }
  const Values before = weights_of(*forms.front());
  Values gradients;
  tests::on_every_rank(pipeline.pipeline, [&](World& world) {
    Form& form = *forms[static_cast<std::size_t>(world.rank())];
    PipelineEngine engine = attach_pipeline(
        form, world, {.stage = stage, .optimizer = SgdOptions{.lr = 1}, .accumulate = kMicros}, pipeline);
    engine.passes([&](int micro) { return form.loss(micro); }, kMicros);
    engine.step(1.0);
    engine.for_each_parameter([&](const std::string& name, const torch::Tensor& tensor) {
      if (world.rank() == 0) gradients[name] = before.at(name) - tensor.to(torch::kDouble);
    });
  });
  return gradients;
}

double loss_in_double(Form& form, const Values& weights, const Values& direction, double step) {
  const torch::NoGradGuard no_gradients;
  for (auto& item : form.named_parameters())
    item.value().copy_(weights.at(item.key()) + direction.at(item.key()) * step);
  double sum = 0;
  for (int micro = 0; micro < kMicros; ++micro) sum += form.loss(micro).item<double>();
  return sum / kMicros;
}

// Compares slopes along random directions, each of one parameter and one of all together.
void expect_slopes(const MakeForm& make, const Values& gradients) {
  torch::manual_seed(3);
  const std::shared_ptr<Form> form = make();
  const Values weights = weights_of(*form);
  ASSERT_EQ(gradients.size(), weights.size());
  form->to(torch::kDouble);
  form->repeats = false;
  torch::manual_seed(11);
  std::vector<std::string> names{""};
  for (const auto& [name, values] : weights) names.push_back(name);
  for (const std::string& only : names) {
    Values direction;
    double slope = 0;
    for (const auto& [name, values] : weights) {
      direction[name] =
          only.empty() || only == name ? torch::randn(values.sizes(), torch::kDouble) : torch::zeros_like(values);
      slope += (gradients.at(name) * direction[name]).sum().item<double>();
    }
    const double difference =
        (loss_in_double(*form, weights, direction, kEpsilon) - loss_in_double(*form, weights, direction, -kEpsilon)) /
        (2 * kEpsilon);
    EXPECT_NEAR(slope, difference, kTolerance) << (only.empty() ? "all parameters" : only);
    EXPECT_GT(std::abs(difference), 100 * kTolerance * (only.empty() ? 1 : 0));
  }
}

void expect_finite_differences(const MakeForm& make) {
  for (const PipelineOptions& pipeline : {PipelineOptions{.pipeline = 2}, PipelineOptions{.pipeline = 3},
                                          PipelineOptions{.pipeline = 2, .schedule = PassOrder::kZbH1}}) {
    SCOPED_TRACE(testing::Message() << pipeline.pipeline << " ranks, " << name_of(pipeline.schedule));
    expect_slopes(make, pipelined_gradients(make, pipeline, /*stage=*/2));
  }
}

TEST(PipelineGradients, SkipsEqualFiniteDifferences) {
  expect_finite_differences([] { return std::make_shared<SkipForm>(); });
}

TEST(PipelineGradients, TiedMatricesEqualFiniteDifferences) {
  expect_finite_differences([] { return std::make_shared<TiedForm>(); });
}

TEST(PipelineGradients, CheckpointsEqualFiniteDifferences) {
  expect_finite_differences([] { return std::make_shared<CheckpointForm>(); });
}

}  // namespace
}  // namespace zero
