#include "app/models/llama.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ops/cross_entropy_loss.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

LlamaOptions small() {
  return {.layers = 2, .width = 16, .heads = 4, .kv_heads = 2, .hidden = 24, .context = 8, .vocab = 17};
}

torch::Tensor some_tokens(std::int64_t batch, std::int64_t time) {
  return torch::arange(batch * time, at::kLong).view({batch, time}).remainder(17);
}

// Llama from its definition: one position and one head at a time, with rotary positions as complex numbers.
torch::Tensor by_hand(Llama& model, const torch::Tensor& tokens) {
  const auto parameters = model->named_parameters();
  const auto p = [&](const std::string& name) { return parameters[name].to(at::kDouble); };
  const auto norm = [&](const torch::Tensor& x, const std::string& name) {
    return x / (x.pow(2).mean(-1, true) + 1e-5).sqrt() * p(name + ".weight");
  };
  const auto linear = [&](const torch::Tensor& x, const std::string& name) {
    return torch::matmul(x, p(name + ".weight").t());
  };
  const LlamaOptions& o = model->options();
  const std::int64_t time = tokens.size(1), size = o.width / o.heads;
  const auto turned = [&](const torch::Tensor& x) {  // [batch, time, size]
    auto y = x.clone();
    for (std::int64_t t = 0; t < time; ++t) {
      for (std::int64_t i = 0; i < size / 2; ++i) {
        const double angle = static_cast<double>(t) * std::pow(10000.0, -2.0 * static_cast<double>(i) / size);
        const auto a = x.select(1, t).select(1, i), b = x.select(1, t).select(1, i + size / 2);
        y.select(1, t).select(1, i).copy_(a * std::cos(angle) - b * std::sin(angle));
        y.select(1, t).select(1, i + size / 2).copy_(a * std::sin(angle) + b * std::cos(angle));
      }
    }
    return y;
  };
  const auto future = torch::ones({time, time}, at::kBool).triu(1);
  auto x = p("model.embed_tokens.weight").index({tokens});
  for (std::int64_t layer = 0; layer < o.layers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer);
    const auto normed = norm(x, at + ".input_layernorm");
    const auto q = linear(normed, at + ".self_attn.q_proj"), k = linear(normed, at + ".self_attn.k_proj"),
               v = linear(normed, at + ".self_attn.v_proj");
    std::vector<torch::Tensor> mixed;
    for (std::int64_t head = 0; head < o.heads; ++head) {
      const std::int64_t shared = head / (o.heads / o.key_heads());
      const auto keys = turned(k.narrow(2, shared * size, size));
      const auto scores = torch::matmul(turned(q.narrow(2, head * size, size)), keys.transpose(1, 2)) / std::sqrt(size);
      const auto weights = scores.masked_fill(future, -INFINITY).softmax(-1);
      mixed.push_back(torch::matmul(weights, v.narrow(2, shared * size, size)));
    }
    x = x + linear(torch::cat(mixed, 2), at + ".self_attn.o_proj");
    const auto y = norm(x, at + ".post_attention_layernorm");
    const auto gate = linear(y, at + ".mlp.gate_proj");
    x = x + linear(gate * gate.sigmoid() * linear(y, at + ".mlp.up_proj"), at + ".mlp.down_proj");
  }
  const std::string head = o.tie_embeddings ? "model.embed_tokens" : "lm_head";
  return linear(norm(x, "model.norm"), head);
}

TEST(Llama, ParametersHavePublishedNamesAndShapes) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> found, expected;
  expected.emplace_back("model.embed_tokens.weight", std::vector<std::int64_t>{17, 16});
  for (const std::string layer : {"0", "1"}) {
    for (const auto& [name, shape] :
         std::vector<std::pair<std::string, std::vector<std::int64_t>>>{{"self_attn.q_proj.weight", {16, 16}},
                                                                        {"self_attn.k_proj.weight", {8, 16}},
                                                                        {"self_attn.v_proj.weight", {8, 16}},
                                                                        {"self_attn.o_proj.weight", {16, 16}},
                                                                        {"mlp.gate_proj.weight", {24, 16}},
                                                                        {"mlp.up_proj.weight", {24, 16}},
                                                                        {"mlp.down_proj.weight", {16, 24}},
                                                                        {"input_layernorm.weight", {16}},
                                                                        {"post_attention_layernorm.weight", {16}}})
      expected.emplace_back("model.layers." + layer + "." + name, shape);
  }
  expected.emplace_back("model.norm.weight", std::vector<std::int64_t>{16});
  expected.emplace_back("lm_head.weight", std::vector<std::int64_t>{17, 16});
  for (const auto& item : Llama(small())->named_parameters())
    found.emplace_back(item.key(), item.value().sizes().vec());
  EXPECT_EQ(found, expected);
}

TEST(Llama, SmallestModelHasPublishedParameterCount) {
  // TinyLlama 1.1B, counted without memory, because an uninitialised weight is never touched.
  std::int64_t count = 0;
  for (const auto& tensor : Llama(LlamaOptions{.layers = 22,
                            .width = 2048,
                            .heads = 32,
                            .kv_heads = 4,
                            .hidden = 5632,
                            .context = 2048,
                            .vocab = 32000,
                            .random_weights = false})
                                ->parameters())
    count += tensor.numel();
  EXPECT_EQ(count, 1100048384);
}

TEST(Llama, ComputesWhatItsDefinitionSays) {
  for (const bool tied : {false, true}) {
    torch::manual_seed(1);
    LlamaOptions options = small();
    options.tie_embeddings = tied;
    Llama model(options);
    const torch::NoGradGuard no_grad;
    for (auto& tensor : model->parameters()) tensor.normal_(0.1, 0.5);  // so every nonlinearity matters
    const auto tokens = some_tokens(3, 8);
    EXPECT_TRUE(torch::allclose(model->forward(tokens).to(at::kDouble), by_hand(model, tokens), 1e-4, 1e-4)) << tied;
  }
}

TEST(Llama, TokenDoesNotSeeItsFuture) {
  torch::manual_seed(2);
  Llama model(small());
  auto tokens = some_tokens(1, 8);
  const auto before = model->forward(tokens);
  tokens[0][5] = 16;
  const auto after = model->forward(tokens);
  EXPECT_TRUE(torch::equal(before.narrow(1, 0, 5), after.narrow(1, 0, 5)));
  EXPECT_FALSE(torch::allclose(before[0][7], after[0][7])) << "the past reaches the last token";
}

TEST(Llama, NextTokenLogitsAreTheLast) {
  torch::manual_seed(8);
  Llama model(small());
  const auto tokens = some_tokens(2, 6);
  EXPECT_TRUE(torch::allclose(model->next_token_logits(tokens), model->forward(tokens).select(1, 5), 1e-5, 1e-6));
}

TEST(Llama, CheckpointsChangeNoBit) {
  std::vector<torch::Tensor> results;
  for (const bool checkpoint : {false, true}) {
    torch::manual_seed(10);
    LlamaOptions options = small();
    options.checkpoint = checkpoint;
    Llama model(options);
    const auto tokens = some_tokens(2, 8);
    at::cross_entropy_loss(model->forward(tokens).view({-1, 17}), tokens.view(-1)).backward();
    std::vector<torch::Tensor> gradients;
    for (const auto& tensor : model->parameters()) gradients.push_back(tensor.grad().flatten());
    results.push_back(torch::cat(gradients));
  }
  EXPECT_TRUE(torch::equal(results[0], results[1]));
}

TEST(Llama, RunsInBfloat16) {
  torch::manual_seed(9);
  Llama model(small());
  const auto exact = model->forward(some_tokens(1, 8));
  model->to(at::kBFloat16);
  const auto rounded = model->forward(some_tokens(1, 8));
  EXPECT_EQ(rounded.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(torch::allclose(exact, rounded.to(at::kFloat), 0.1, 0.02));
}

TEST(Llama, RefusesBadOptionsByKey) {
  const auto refused = [](LlamaOptions options) { return message_of<ConfigError>([&] { check(options); }); };
  EXPECT_TRUE(says(refused({.width = 12, .heads = 4}), "model.heads")) << "heads of 3 elements have no pairs";
  EXPECT_TRUE(says(refused({.heads = 4, .kv_heads = 3}), "model.kv_heads"));
  EXPECT_TRUE(says(refused({.layers = 0}), "model.layers"));
  Llama model(small());
  EXPECT_TRUE(says(message_of<ConfigError>([&] { model->forward(some_tokens(1, 9)); }), "model.context is 8"));
}

TEST(Llama, CountsSixFlopsPerWeight) {
  const LlamaOptions o = small();
  double weights = 0;
  for (const auto& item : Llama(o)->named_parameters()) {
    if (item.value().dim() == 2 && item.key() != "model.embed_tokens.weight")
      weights += static_cast<double>(item.value().numel());
  }
  EXPECT_EQ(flops_per_token(o, 8), 6 * weights + 12 * 2 * 16 * 8);
}

}  // namespace
}  // namespace zero
