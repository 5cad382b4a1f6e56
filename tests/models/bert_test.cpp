#include "app/models/bert.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ops/cross_entropy_loss.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

BertOptions small() {
  return {.layers = 2, .width = 12, .heads = 3, .hidden = 20, .context = 8, .vocab = 17, .classes = 4};
}

// Sequences of 6 and of 4 tokens. The shorter one is padded.
torch::Tensor padded_tokens() {
  return torch::tensor({{3, 5, 7, 9, 11, 13}, {2, 4, 6, 8, 0, 0}}, at::kLong);
}

// BERT from its definition, with only matrix products and softmax.
torch::Tensor by_hand(Bert& model, const torch::Tensor& tokens) {
  const auto parameters = model->named_parameters();
  const auto p = [&](const std::string& name) { return parameters[name]; };
  const auto norm = [&](const torch::Tensor& x, const std::string& name) {
    const auto centred = x - x.mean(-1, true);
    return centred / ((centred * centred).mean(-1, true) + 1e-12).sqrt() * p(name + ".weight") + p(name + ".bias");
  };
  const auto linear = [&](const torch::Tensor& x, const std::string& name) {
    return torch::matmul(x, p(name + ".weight").t()) + p(name + ".bias");
  };
  const BertOptions& o = model->options();
  const std::int64_t size = o.width / o.heads;
  const auto hidden = tokens.eq(o.pad).unsqueeze(1);  // for every query
  auto x = p("bert.embeddings.word_embeddings.weight").index({tokens}) +
           p("bert.embeddings.position_embeddings.weight").narrow(0, 0, tokens.size(1)) +
           p("bert.embeddings.token_type_embeddings.weight")[0];
  x = norm(x, "bert.embeddings.LayerNorm");
  for (std::int64_t layer = 0; layer < o.layers; ++layer) {
    const std::string at = "bert.encoder.layer." + std::to_string(layer);
    const auto q = linear(x, at + ".attention.self.query"), k = linear(x, at + ".attention.self.key"),
               v = linear(x, at + ".attention.self.value");
    std::vector<torch::Tensor> mixed;
    for (std::int64_t head = 0; head < o.heads; ++head) {
      const auto part = [&](const torch::Tensor& y) { return y.narrow(2, head * size, size); };
      const auto scores = torch::matmul(part(q), part(k).transpose(1, 2)) / std::sqrt(static_cast<double>(size));
      mixed.push_back(torch::matmul(scores.masked_fill(hidden, -INFINITY).softmax(-1), part(v)));
    }
    x = norm(x + linear(torch::cat(mixed, 2), at + ".attention.output.dense"), at + ".attention.output.LayerNorm");
    const auto y = linear(x, at + ".intermediate.dense");
    const auto gelu = y * 0.5 * (1 + torch::erf(y / std::sqrt(2.0)));
    x = norm(x + linear(gelu, at + ".output.dense"), at + ".output.LayerNorm");
  }
  return linear(linear(x.select(1, 0), "bert.pooler.dense").tanh(), "classifier");
}

TEST(Bert, ParametersHaveThePublishedNames) {
  std::set<std::string> expected{"bert.embeddings.word_embeddings.weight",
                                 "bert.embeddings.position_embeddings.weight",
                                 "bert.embeddings.token_type_embeddings.weight",
                                 "bert.embeddings.LayerNorm.weight",
                                 "bert.embeddings.LayerNorm.bias",
                                 "bert.pooler.dense.weight",
                                 "bert.pooler.dense.bias",
                                 "classifier.weight",
                                 "classifier.bias"};
  for (const std::string layer : {"0", "1"}) {
    for (const std::string part :
         {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
          "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"}) {
      for (const std::string which : {"weight", "bias"})
        expected.insert("bert.encoder.layer." + layer + "." + part + "." + which);
    }
  }
  std::set<std::string> found;
  for (const auto& item : Bert(small())->named_parameters()) found.insert(item.key());
  EXPECT_EQ(found, expected);
}

TEST(Bert, TheBaseModelHas109Million) {
  std::int64_t count = 0;
  for (const auto& tensor :
       Bert(BertOptions{
                .layers = 12, .width = 768, .heads = 12, .context = 512, .vocab = 30522, .random_weights = false})
           ->parameters())
    count += tensor.numel();
  EXPECT_EQ(count, 109482240 + 2 * 768 + 2) << "as published, and a classifier of two";
}

TEST(Bert, ComputesWhatItsDefinitionSays) {
  torch::manual_seed(1);
  Bert model(small());
  const torch::NoGradGuard no_grad;
  for (auto& tensor : model->parameters()) tensor.normal_(0.1, 0.5);  // so every nonlinearity matters
  EXPECT_TRUE(torch::allclose(model->forward(padded_tokens()), by_hand(model, padded_tokens()), 1e-4, 1e-4));
}

TEST(Bert, PaddingIsSeenByNobody) {
  torch::manual_seed(2);
  Bert model(small());
  const auto with = model->forward(padded_tokens())[1], without = model->forward(padded_tokens().narrow(1, 0, 4))[1];
  EXPECT_TRUE(torch::allclose(with, without, 1e-5, 1e-6));
}

// Dropout acts only in training. Activation checkpoints change no bit.
TEST(Bert, DropoutTrainsOnlyAndCheckpointsAgree) {
  BertOptions options = small();
  options.dropout = 0.5;
  std::vector<torch::Tensor> gradients;
  for (const bool checkpoint : {false, true}) {
    options.checkpoint = checkpoint;
    torch::manual_seed(3);
    Bert model(options);
    const auto tokens = padded_tokens();
    at::cross_entropy_loss(model->forward(tokens), torch::tensor({0, 1}, at::kLong)).backward();
    std::vector<torch::Tensor> all;
    for (const auto& tensor : model->parameters()) all.push_back(tensor.grad().flatten());
    gradients.push_back(torch::cat(all));
    EXPECT_FALSE(torch::equal(model->forward(tokens), model->forward(tokens)));
    model->eval();
    EXPECT_TRUE(torch::equal(model->forward(tokens), model->forward(tokens)));
  }
  EXPECT_TRUE(torch::equal(gradients[0], gradients[1]));
}

TEST(Bert, RefusesBadOptionsByKey) {
  const auto refused = [](const BertOptions& options) { return message_of<ConfigError>([&] { check(options); }); };
  EXPECT_TRUE(says(refused({.width = 10, .heads = 3}), "model.heads"));
  EXPECT_TRUE(says(refused({.classes = 1}), "data.classes = 1: nothing to choose from"));
  EXPECT_TRUE(says(refused({.dropout = 1}), "model.dropout"));
  Bert model(small());
  EXPECT_TRUE(says(message_of<ConfigError>([&] {
                     model->forward(torch::ones({1, 9}, at::kLong));
                   }),
                   "model.context is 8"));
}

}  // namespace
}  // namespace zero
