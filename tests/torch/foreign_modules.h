// Modules that were not written for zero.cpp. Each uses its parameters in a way that a sharding library can get wrong.
#pragma once

#include "tests/torch/training_run.h"

namespace zero::tests {

struct ForeignModule {
  std::string name;
  MakeSubject make;
  MakeSubject between;            // the module between two layers, so it has computed inputs
  bool same_every_step = true;    // the same operators in the same order, so no step has a trace mismatch
  bool in_functions = false;      // custom autograd functions use its parameters
  bool keeps_statistics = false;  // it has running statistics
};

// Numbers that depend on step, micro-batch and rank.
inline torch::Tensor inputs(const std::vector<std::int64_t>& sizes, int step, int micro, int rank) {
  const std::int64_t numel = c10::multiply_integers(sizes);
  return torch::sin(torch::arange(numel, torch::kFloat32) * (0.7 + 0.1 * step) + 1.3 * micro + 2.1 * rank)
      .reshape(sizes);
}

template <typename Net>
Subject subject_of(std::shared_ptr<Net> net, const std::vector<std::int64_t>& sizes) {
  return {net, [net, sizes](int step, int micro, int rank) {
            return net->forward(inputs(sizes, step, micro, rank)).square().mean();
          }};
}

template <typename Net>
MakeSubject maker(const std::vector<std::int64_t>& sizes) {
  return [sizes] { return subject_of(std::make_shared<Net>(), sizes); };
}

// A pipeline can be cut before and after `net`.
template <typename Net>
struct BetweenLayers : torch::nn::Module {
  explicit BetweenLayers(const std::vector<std::int64_t>& sizes)
      : first(sizes.back(), sizes.back()), net(std::make_shared<Net>()), last(width_of_result(*net, sizes), 3) {
    register_module("first", first);
    register_module("net", net);
    register_module("last", last);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(net->forward(first(x))); }
  static std::int64_t width_of_result(Net& net, const std::vector<std::int64_t>& sizes) {
    const torch::NoGradGuard no_gradients;
    net.eval();
    const std::int64_t width = net.forward(inputs(sizes, 0, 0, 0)).size(-1);
    net.train();
    return width;
  }
  torch::nn::Linear first;
  std::shared_ptr<Net> net;
  torch::nn::Linear last;
};

template <typename Net>
ForeignModule foreign(const std::string& name, const std::vector<std::int64_t>& sizes) {
  return {.name = name, .make = maker<Net>(sizes), .between = [sizes] {
            return subject_of(std::make_shared<BetweenLayers<Net>>(sizes), sizes);
          }};
}

// ---- torch's own modules, wrapped to take one tensor and return one ------------------------------------------------

struct GruNet : torch::nn::Module {
  GruNet() { register_module("gru", gru); }
  torch::Tensor forward(const torch::Tensor& x) { return std::get<0>(gru(x)); }
  torch::nn::GRU gru{torch::nn::GRUOptions(4, 6).num_layers(2)};
};

struct LstmNet : torch::nn::Module {
  LstmNet() { register_module("lstm", lstm); }
  torch::Tensor forward(const torch::Tensor& x) { return std::get<0>(lstm(x)); }
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(4, 5).bidirectional(true)};
};

struct AttentionNet : torch::nn::Module {
  AttentionNet() { register_module("attention", attention); }
  torch::Tensor forward(const torch::Tensor& x) { return std::get<0>(attention(x, x, x)); }
  torch::nn::MultiheadAttention attention{torch::nn::MultiheadAttentionOptions(8, 2).add_bias_kv(true)};
};

struct TransformerNet : torch::nn::Module {
  TransformerNet() { register_module("encoder", encoder); }
  torch::Tensor forward(const torch::Tensor& x) { return encoder(x); }
  torch::nn::TransformerEncoder encoder{torch::nn::TransformerEncoderOptions(
      torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.0), 2)};
};

struct BilinearNet : torch::nn::Module {
  BilinearNet() { register_module("bilinear", bilinear); }
  torch::Tensor forward(const torch::Tensor& x) { return bilinear(x, x.flip(0)); }
  torch::nn::Bilinear bilinear{4, 4, 5};
};

struct ConvTransposeNet : torch::nn::Module {
  ConvTransposeNet() {
    register_module("line", line);
    register_module("plane", plane);
  }
  torch::Tensor forward(const torch::Tensor& x) { return plane(line(x).unsqueeze(1)); }
  torch::nn::ConvTranspose1d line{torch::nn::ConvTranspose1dOptions(3, 4, 3).stride(2)};
  torch::nn::ConvTranspose2d plane{torch::nn::ConvTranspose2dOptions(1, 2, 3)};
};

struct BatchNormNet : torch::nn::Module {
  BatchNormNet() {
    register_module("conv", conv);
    register_module("norm", norm);
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(norm(conv(x))); }
  torch::nn::Conv1d conv{torch::nn::Conv1dOptions(3, 4, 2)};
  torch::nn::BatchNorm1d norm{4};
};

struct SparseEmbeddingNet : torch::nn::Module {
  SparseEmbeddingNet() {
    register_module("table", table);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(table((x * 50).to(torch::kInt64).remainder(7))); }
  torch::nn::Embedding table{torch::nn::EmbeddingOptions(7, 4).sparse(true)};
  torch::nn::Linear head{4, 3};
};

struct DictNet : torch::nn::Module {
  using Children = std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>>;
  DictNet() {
    const torch::nn::ModuleDict inner(
        Children{{"0", torch::nn::Sequential(torch::nn::Linear(4, 5), torch::nn::PReLU()).ptr()},
                 {"middle", torch::nn::Linear(5, 5).ptr()}});
    dict = register_module(
        "dict", torch::nn::ModuleDict(Children{{"left", inner.ptr()}, {"right", torch::nn::Linear(5, 2).ptr()}}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    auto& inner = *dict["left"]->as<torch::nn::ModuleDictImpl>();
    const torch::Tensor hidden = inner["0"]->as<torch::nn::SequentialImpl>()->forward(x);
    return dict["right"]->as<torch::nn::LinearImpl>()->forward(
        inner["middle"]->as<torch::nn::LinearImpl>()->forward(hidden));
  }
  torch::nn::ModuleDict dict{nullptr};
};

// ---- parameters used in unusual ways -------------------------------------------------------------------------------

// Keeps a tensor that another module has also registered.
struct HeadImpl : torch::nn::Module {
  explicit HeadImpl(const torch::Tensor& shared) : weight(register_parameter("weight", shared)) {}
  torch::Tensor weight;
};
TORCH_MODULE(Head);

struct SameTensorTwiceNet : torch::nn::Module {
  SameTensorTwiceNet() : head(first->weight) {
    register_module("first", first);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::linear(torch::tanh(first(x)), head->weight.t()); }
  torch::nn::Linear first{5, 5};
  Head head;
};

struct SameModuleTwiceNet : torch::nn::Module {
  SameModuleTwiceNet() {
    register_module("up", shared);
    register_module("middle", middle);
    register_module("down", shared);
  }
  torch::Tensor forward(const torch::Tensor& x) { return shared(torch::tanh(middle(shared(x)))); }
  torch::nn::Linear shared{4, 4}, middle{4, 4};
};

struct UsedTwiceNet : torch::nn::Module {
  UsedTwiceNet()
      : weight(register_parameter("weight", torch::randn({4, 4}))),
        bias(register_parameter("bias", torch::randn({4}))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor once = torch::addmm(bias, x, weight);
    return torch::mm(torch::sigmoid(once), weight.t()) * weight.select(0, 1) + weight.slice(0, 2, 3) +
           bias.expand({2, 4}).sum();
  }
  torch::Tensor weight, bias;
};

// The weight exists only as a product of two parameters: once by hand, once by torch's own operator.
struct WeightNormNet : torch::nn::Module {
  WeightNormNet()
      : direction(register_parameter("direction", torch::randn({5, 4}))),
        length(register_parameter("length", torch::ones({5, 1}))),
        other(register_parameter("other", torch::randn({3, 5}))),
        other_length(register_parameter("other_length", torch::ones({3, 1}))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor weight = length * direction / direction.norm(2, std::vector<std::int64_t>{1}, true);
    return torch::linear(torch::linear(x, weight), torch::_weight_norm(other, other_length, 0));
  }
  torch::Tensor direction, length, other, other_length;
};

// The first layer is frozen. Gradients also pass through a frozen layer in the middle.
struct FrozenNet : torch::nn::Module {
  FrozenNet() {
    register_module("layers", layers);
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(4, 4));
    for (std::size_t i : {0, 2}) {
      for (torch::Tensor& parameter : layers[i]->parameters()) parameter.requires_grad_(false);
    }
    empty = register_parameter("empty", torch::empty({0, 4}));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::LinearImpl>()->forward(x));
    return torch::cat({x, empty});
  }
  torch::nn::ModuleList layers;
  torch::Tensor empty;
};

// y = tanh(x) * w with a hand-written derivative.
struct ScaledTanh : torch::autograd::Function<ScaledTanh> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& w) {
    context->save_for_backward({x, w});
    return torch::tanh(x) * w;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor y = torch::tanh(saved[0]);
    return {gradients[0] * saved[1] * (1 - y * y), (gradients[0] * y).sum(0)};
  }
};

struct CustomFunctionNet : torch::nn::Module {
  CustomFunctionNet() : weight(register_parameter("weight", torch::rand({5}))) {
    register_module("in", in);
    register_module("out", out);
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(ScaledTanh::apply(in(x), weight)); }
  torch::nn::Linear in{4, 5}, out{5, 3};
  torch::Tensor weight;
};

// The second function uses the result of the first. An operator of another parameter runs between them.
struct ChainedFunctionsNet : torch::nn::Module {
  ChainedFunctionsNet()
      : weight(register_parameter("weight", torch::rand({5}))), other(register_parameter("other", torch::rand({5}))) {
    register_module("in", in);
    register_module("out", out);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor once = ScaledTanh::apply(in(x), weight);
    const torch::Tensor scale = torch::sigmoid(other);
    return out(ScaledTanh::apply(once, scale));
  }
  torch::nn::Linear in{4, 5}, out{5, 3};
  torch::Tensor weight, other;
};

using Segment = std::function<torch::Tensor(const torch::Tensor&)>;

// Activation checkpointing: the segment runs without a graph, and again with a graph inside the backward pass.
struct Recompute : torch::autograd::Function<Recompute> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const Segment* segment) {
    context->save_for_backward({x});
    context->saved_data["segment"] = reinterpret_cast<std::int64_t>(segment);
    return (*segment)(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto* segment = reinterpret_cast<const Segment*>(context->saved_data["segment"].toInt());
    const torch::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    const torch::AutoGradMode with_graph(true);
    torch::autograd::backward({(*segment)(x)}, {gradients[0]});
    return {x.grad(), torch::Tensor()};
  }
};

struct CheckpointNet : torch::nn::Module {
  CheckpointNet() {
    register_module("in", in);
    register_module("layers", layers);
    for (int i = 0; i < 3; ++i) layers->push_back(torch::nn::Linear(5, 5));
    for (std::size_t i = 0; i < 3; ++i) {
      // The bias of `in` is used in every segment and outside, so its gradient arrives in parts.
      segments.emplace_back([this, i](const torch::Tensor& x) {
        return torch::tanh(layers[i]->as<torch::nn::LinearImpl>()->forward(x)) + in->bias;
      });
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = in(x);
    for (const Segment& segment : segments) y = Recompute::apply(y, &segment);
    return y;
  }
  torch::nn::Linear in{4, 5};
  torch::nn::ModuleList layers;
  std::vector<Segment> segments;
};

// ---- parameters outside their module, and unused modules -----------------------------------------------------------

struct PlainLayers : torch::nn::Module {
  PlainLayers() : temperature(register_parameter("temperature", torch::zeros({}))) {
    register_module("layers", layers);
    for (int i = 0; i < 3; ++i) layers->push_back(torch::nn::Linear(4, 4));
  }
  torch::nn::LinearImpl& layer(std::size_t i) { return *layers[i]->as<torch::nn::LinearImpl>(); }
  torch::nn::ModuleList layers;
  torch::Tensor temperature;
};

// Uses each weight with a gradient, and before and after that without one.
struct DetachedNet : PlainLayers {
  torch::Tensor forward(torch::Tensor x) {
    for (std::size_t i = 0; i < 3; ++i) {
      const torch::Tensor before = layer(i).weight.detach().mean(0);
      x = torch::tanh(layer(i).forward(x) - before);
      x = x * layer(i).weight.detach().select(0, 1);
    }
    return x * temperature.exp();
  }
};

inline Subject used_in_the_loss() {
  auto net = std::make_shared<PlainLayers>();
  return {net, [net](int step, int micro, int rank) {
            torch::Tensor x = inputs({3, 4}, step, micro, rank);
            for (std::size_t i = 0; i < 3; ++i) x = torch::tanh(net->layer(i).forward(x));
            const torch::Tensor penalty = net->layer(0).weight.square().sum() + net->layer(2).bias.abs().sum();
            return (x * net->temperature.exp()).square().mean() + 0.1 * penalty;
          }};
}

inline Subject skipped_every_other_step() {
  auto net = std::make_shared<PlainLayers>();
  return {net, [net](int step, int micro, int rank) {
            torch::Tensor x = inputs({3, 4}, step, micro, rank);
            for (std::size_t i = 0; i < 3; ++i) {
              if (i != 1 || step % 2 == 0) x = torch::tanh(net->layer(i).forward(x));
            }
            return x.square().mean();
          }};
}

inline std::vector<ForeignModule> foreign_modules() {
  std::vector<ForeignModule> modules{foreign<GruNet>("Gru", {5, 2, 4}),
                                     foreign<LstmNet>("Lstm", {5, 2, 4}),
                                     foreign<AttentionNet>("MultiheadAttention", {5, 2, 8}),
                                     foreign<TransformerNet>("TransformerEncoder", {5, 2, 8}),
                                     foreign<BilinearNet>("Bilinear", {3, 4}),
                                     foreign<ConvTransposeNet>("ConvTranspose", {2, 3, 5}),
                                     foreign<BatchNormNet>("BatchNorm", {3, 3, 6}),
                                     foreign<SparseEmbeddingNet>("SparseEmbedding", {2, 5}),
                                     foreign<DictNet>("NestedModuleDict", {3, 4}),
                                     foreign<SameTensorTwiceNet>("SameTensorInTwoModules", {3, 5}),
                                     foreign<SameModuleTwiceNet>("SameModuleTwice", {3, 4}),
                                     foreign<UsedTwiceNet>("ParameterUsedTwice", {2, 4}),
                                     foreign<WeightNormNet>("WeightNorm", {3, 4}),
                                     foreign<DetachedNet>("DetachedWeight", {3, 4}),
                                     foreign<FrozenNet>("FrozenAndEmpty", {3, 4}),
                                     foreign<CustomFunctionNet>("CustomFunction", {3, 4}),
                                     foreign<ChainedFunctionsNet>("ChainedFunctions", {3, 4}),
                                     foreign<CheckpointNet>("Checkpoint", {3, 4}),
                                     {"UsedInTheLoss", used_in_the_loss, used_in_the_loss},
                                     {"SkippedEveryOtherStep", skipped_every_other_step, skipped_every_other_step,
                                      /*same_every_step=*/false}};
  for (ForeignModule& module : modules) {
    module.in_functions =
        module.name == "CustomFunction" || module.name == "ChainedFunctions" || module.name == "Checkpoint";
    module.keeps_statistics = module.name == "BatchNorm";
  }
  return modules;
}

}  // namespace zero::tests
