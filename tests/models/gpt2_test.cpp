#include "app/models/gpt2.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ops/cross_entropy_loss.h>
#include <torch/csrc/autograd/function.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

Gpt2Options small(double dropout = 0) {
  return {.layers = 2, .width = 12, .heads = 3, .context = 8, .vocab = 17, .dropout = dropout};
}

torch::Tensor some_tokens(std::int64_t batch, std::int64_t time) {
  return torch::arange(batch * time, at::kLong).view({batch, time}).remainder(17);
}

torch::Tensor parameter(Gpt2& model, const std::string& name) {
  return model->named_parameters()[name];
}

std::int64_t count_parameters(const Gpt2Options& options) {
  std::int64_t count = 0;
  for (const auto& tensor : Gpt2(options)->parameters()) count += tensor.numel();
  return count;
}

// GPT-2 from its definition, with only matrix products and softmax.
torch::Tensor by_hand(Gpt2& model, const torch::Tensor& tokens) {
  const auto p = [&](const std::string& name) { return parameter(model, "transformer." + name); };
  const auto norm = [&](const torch::Tensor& x, const std::string& name) {
    const auto centred = x - x.mean(-1, true);
    const auto variance = (centred * centred).mean(-1, true);
    return centred / (variance + 1e-5).sqrt() * p(name + ".weight") + p(name + ".bias");
  };
  const auto conv = [&](const torch::Tensor& x, const std::string& name) {
    return torch::matmul(x, p(name + ".weight")) + p(name + ".bias");
  };
  const auto gelu = [](const torch::Tensor& x) {
    return 0.5 * x * (1 + torch::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))));
  };
  const std::int64_t time = tokens.size(1), heads = model->options().heads, width = model->options().width;
  const auto future = torch::ones({time, time}, at::kBool).triu(1);
  auto x = p("wte.weight").index({tokens}) + p("wpe.weight").narrow(0, 0, time);
  for (std::int64_t layer = 0; layer < model->options().layers; ++layer) {
    const std::string h = "h." + std::to_string(layer);
    const auto qkv = conv(norm(x, h + ".ln_1"), h + ".attn.c_attn");
    std::vector<torch::Tensor> mixed;
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t size = width / heads;
      const auto part = [&](std::int64_t which) { return qkv.narrow(2, which * width + head * size, size); };
      const auto scores = torch::matmul(part(0), part(1).transpose(1, 2)) / std::sqrt(static_cast<double>(size));
      mixed.push_back(torch::matmul(scores.masked_fill(future, -INFINITY).softmax(-1), part(2)));
    }
    x = x + conv(torch::cat(mixed, 2), h + ".attn.c_proj");
    x = x + conv(gelu(conv(norm(x, h + ".ln_2"), h + ".mlp.c_fc")), h + ".mlp.c_proj");
  }
  return torch::matmul(norm(x, "ln_f"), p("wte.weight").t());
}

TEST(Gpt2, ParametersHavePublishedNamesAndShapes) {
  Gpt2 model(small());
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> block{{"ln_1.weight", {12}},
                                                                             {"ln_1.bias", {12}},
                                                                             {"attn.c_attn.weight", {12, 36}},
                                                                             {"attn.c_attn.bias", {36}},
                                                                             {"attn.c_proj.weight", {12, 12}},
                                                                             {"attn.c_proj.bias", {12}},
                                                                             {"ln_2.weight", {12}},
                                                                             {"ln_2.bias", {12}},
                                                                             {"mlp.c_fc.weight", {12, 48}},
                                                                             {"mlp.c_fc.bias", {48}},
                                                                             {"mlp.c_proj.weight", {48, 12}},
                                                                             {"mlp.c_proj.bias", {12}}};
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> expected{{"transformer.wte.weight", {17, 12}},
                                                                          {"transformer.wpe.weight", {8, 12}}};
  for (const char* layer : {"0", "1"}) {
    for (const auto& [name, shape] : block)
      expected.emplace_back(std::string("transformer.h.") + layer + "." + name, shape);
  }
  expected.emplace_back("transformer.ln_f.weight", std::vector<std::int64_t>{12});
  expected.emplace_back("transformer.ln_f.bias", std::vector<std::int64_t>{12});
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> found;
  for (const auto& item : model->named_parameters()) found.emplace_back(item.key(), item.value().sizes().vec());
  EXPECT_EQ(found, expected);
}

TEST(Gpt2, TheSmallestPublishedModelHas124Million) {
  // Counted without memory, because an uninitialised weight is never touched.
  EXPECT_EQ(count_parameters(
                {.layers = 12, .width = 768, .heads = 12, .context = 1024, .vocab = 50257, .random_weights = false}),
            124439808);
}

TEST(Gpt2, ComputesWhatItsDefinitionSays) {
  torch::manual_seed(1);
  Gpt2 model(small());
  const torch::NoGradGuard no_grad;
  // Larger than the initial weights, so every nonlinearity matters.
  for (auto& tensor : model->parameters()) tensor.normal_(0.1, 0.5);
  const auto tokens = some_tokens(3, 8);
  EXPECT_TRUE(torch::allclose(model->forward(tokens), by_hand(model, tokens), 1e-4, 1e-4));
}

TEST(Gpt2, TokenDoesNotSeeItsFuture) {
  torch::manual_seed(2);
  Gpt2 model(small());
  auto tokens = some_tokens(1, 8);
  const auto before = model->forward(tokens);
  tokens[0][5] = 16;
  const auto after = model->forward(tokens);
  EXPECT_TRUE(torch::equal(before.narrow(1, 0, 5), after.narrow(1, 0, 5)));
  EXPECT_FALSE(torch::allclose(before[0][5], after[0][5]));
  EXPECT_FALSE(torch::allclose(before[0][7], after[0][7])) << "the past reaches the last token";
}

TEST(Gpt2, TheHeadIsTheEmbedding) {
  torch::manual_seed(3);
  Gpt2 model(small());
  const auto tokens = some_tokens(2, 4);
  at::cross_entropy_loss(model->forward(tokens).view({-1, 17}), tokens.view(-1)).backward();
  const auto gradient = parameter(model, "transformer.wte.weight").grad();
  // Token 16 is not in the input, so only the head can have given its row a gradient.
  EXPECT_GT(gradient[16].abs().sum().item<double>(), 0);
}

TEST(Gpt2, FirstWeightsAreAsPublished) {
  torch::manual_seed(4);
  Gpt2 model(Gpt2Options{.layers = 8, .width = 64, .heads = 4, .context = 32, .vocab = 500});
  const auto deviation = [&](const std::string& name) {
    return parameter(model, "transformer." + name).std().item<double>();
  };
  EXPECT_NEAR(deviation("wte.weight"), 0.02, 5e-4);
  EXPECT_NEAR(deviation("wpe.weight"), 0.02, 2e-3);
  EXPECT_NEAR(deviation("h.3.attn.c_attn.weight"), 0.02, 1e-3);
  EXPECT_NEAR(deviation("h.3.mlp.c_fc.weight"), 0.02, 1e-3);
  EXPECT_NEAR(deviation("h.3.attn.c_proj.weight"), 0.005, 3e-4) << "0.02 / sqrt(16)";
  EXPECT_NEAR(deviation("h.3.mlp.c_proj.weight"), 0.005, 3e-4);
  for (const auto& item : model->named_parameters()) {
    if (item.key().ends_with("bias")) {
      EXPECT_EQ(item.value().abs().sum().item<double>(), 0) << item.key();
    }
    if (item.key().find("ln_") != std::string::npos && item.key().ends_with("weight")) {
      EXPECT_TRUE(torch::equal(item.value(), torch::ones_like(item.value()))) << item.key();
    }
  }
}

TEST(Gpt2, FirstLossIsThatOfGuessing) {
  torch::manual_seed(5);
  Gpt2 model(small());
  const auto tokens = some_tokens(4, 8), next = (tokens + 1).remainder(17);
  const auto loss = at::cross_entropy_loss(model->forward(tokens).view({-1, 17}), next.view(-1));
  EXPECT_NEAR(loss.item<double>(), std::log(17.0), 0.1);
}

TEST(Gpt2, DropoutActsInTrainingOnly) {
  torch::manual_seed(6);
  Gpt2 model(small(0.5));
  const auto tokens = some_tokens(2, 8);
  EXPECT_FALSE(torch::equal(model->forward(tokens), model->forward(tokens)));
  model->eval();
  EXPECT_TRUE(torch::equal(model->forward(tokens), model->forward(tokens)));
}

// Loss and gradients, and the number of operators in the graph between the forward and the backward pass.
struct Pass {
  std::vector<torch::Tensor> results;
  std::size_t num_nodes = 0;
};

std::size_t nodes_behind(const torch::Tensor& loss) {
  std::set<const torch::autograd::Node*> seen;
  std::vector<const torch::autograd::Node*> open{loss.grad_fn().get()};
  while (!open.empty()) {
    const auto* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return seen.size();
}

Pass pass_of(Gpt2Options options, bool checkpoint, bool training = true) {
  options.checkpoint = checkpoint;
  torch::manual_seed(10);
  Gpt2 model(options);
  model->train(training);
  const auto tokens = some_tokens(2, 8);
  const auto loss = at::cross_entropy_loss(model->forward(tokens).view({-1, 17}), tokens.view(-1));
  Pass pass{{loss.detach()}, nodes_behind(loss)};
  loss.backward();
  for (const auto& tensor : model->parameters()) pass.results.push_back(tensor.grad());
  return pass;
}

TEST(Gpt2, CheckpointsKeepLessAndSameBits) {
  for (const double dropout : {0.0, 0.3}) {
    const Pass without = pass_of(small(dropout), false), with = pass_of(small(dropout), true);
    EXPECT_LT(with.num_nodes, without.num_nodes / 2) << "a block is one node of the graph";
    ASSERT_EQ(with.results.size(), without.results.size());
    for (std::size_t i = 0; i < with.results.size(); ++i)
      EXPECT_TRUE(torch::equal(with.results[i], without.results[i])) << "dropout " << dropout << ", result " << i;
  }
}

TEST(Gpt2, CheckpointsAreForTrainingAlone) {
  EXPECT_EQ(pass_of(small(), true, /*training=*/false).num_nodes, pass_of(small(), false, false).num_nodes);
}

TEST(Gpt2, TrainingMatchesEvaluationWithoutDropout) {
  torch::manual_seed(7);
  Gpt2 model(small());
  const auto tokens = some_tokens(2, 8);
  const auto training = model->forward(tokens);
  model->eval();
  EXPECT_TRUE(torch::equal(training, model->forward(tokens)));
}

TEST(Gpt2, NextTokenLogitsAreTheLast) {
  torch::manual_seed(8);
  Gpt2 model(small());
  const auto tokens = some_tokens(2, 6);
  EXPECT_TRUE(torch::allclose(model->next_token_logits(tokens), model->forward(tokens).select(1, 5), 1e-5, 1e-6));
}

TEST(Gpt2, RunsInBfloat16) {
  torch::manual_seed(9);
  Gpt2 model(small());
  const auto exact = model->forward(some_tokens(1, 8));
  model->to(at::kBFloat16);
  const auto rounded = model->forward(some_tokens(1, 8));
  EXPECT_EQ(rounded.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(torch::allclose(exact, rounded.to(at::kFloat), 0.1, 0.02));
}

TEST(Gpt2, RefusesSequenceBeyondContext) {
  Gpt2 model(small());
  const auto message = message_of<ConfigError>([&] { model->forward(some_tokens(1, 9)); });
  EXPECT_TRUE(says(message, "model.context is 8"));
}

TEST(Gpt2, HeadsMustDivideTheWidth) {
  auto options = small();
  options.heads = 5;
  const auto message = message_of<ConfigError>([&] { Gpt2 model(options); });
  EXPECT_TRUE(says(message, "model.heads = 5"));
  EXPECT_TRUE(says(message, "model.width is 12"));
}

// Sizes must be positive, and dropout must be a fraction.
TEST(Gpt2, ChecksSizesAndDropout) {
  const auto key_of = [](Gpt2Options options) { return message_of<ConfigError>([&] { check(options); }); };
  auto options = small();
  options.layers = 0;
  EXPECT_TRUE(says(key_of(options), "model.layers = 0"));
  options = small();
  options.vocab = -3;
  EXPECT_TRUE(says(key_of(options), "model.vocab = -3"));
  options = small(1.0);
  EXPECT_TRUE(says(key_of(options), "model.dropout = 1"));
  EXPECT_NO_THROW(check(small(0.99)));
}

TEST(Gpt2, FlopsFollowUsedWeights) {
  const Gpt2Options options{.layers = 12, .width = 768, .heads = 12, .context = 1024, .vocab = 50257};
  // 124.4 M parameters minus 0.8 M for positions, biases and norms. Attention adds 12 x 12 x 768 x 1024.
  EXPECT_NEAR(flops_per_token(options, 1024), 6.0 * 123.5e6 + 113.2e6, 2e6);
  EXPECT_LT(flops_per_token(options, 128), flops_per_token(options, 1024));
}

}  // namespace
}  // namespace zero
