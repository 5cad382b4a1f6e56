#include "app/models/generate.h"

#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/models/gpt2.h"
#include "app/models/llama.h"
#include "app/models/recurrent.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

Gpt2 some_model() {
  torch::manual_seed(11);
  Gpt2 model(Gpt2Options{.layers = 1, .width = 8, .heads = 2, .context = 4, .vocab = 13});
  const torch::NoGradGuard no_grad;
  for (auto& tensor : model->parameters()) tensor.normal_(0, 0.7);
  return model;
}

TEST(Generate, SameSeedGivesSameText) {
  auto model = some_model();
  const auto text = [&](std::uint64_t seed) {
    return generate(*model, {1, 2}, {.tokens = 40, .temperature = 1.5, .seed = seed});
  };
  EXPECT_EQ(text(3), text(3));
  EXPECT_NE(text(3), text(4));
}

TEST(Generate, LeavesTheSharedGeneratorAlone) {
  auto model = some_model();
  torch::manual_seed(5);
  const auto undisturbed = torch::rand({3});
  torch::manual_seed(5);
  generate(*model, {1}, {.tokens = 10});
  EXPECT_TRUE(torch::equal(torch::rand({3}), undisturbed));
}

TEST(Generate, TemperatureZeroTakesTheLikeliest) {
  auto model = some_model();
  const auto next = generate(*model, {5, 6}, {.tokens = 1, .temperature = 0});
  const auto logits = model->next_token_logits(torch::tensor({{5, 6}}, at::kLong));
  EXPECT_EQ(next, std::vector<std::int64_t>{logits.argmax().item<std::int64_t>()});
}

// Their quotients were infinite, or NaN.
TEST(Generate, TinyTemperaturesTakeLikeliestToken) {
  auto model = some_model();
  const auto likeliest = generate(*model, {5}, {.tokens = 20, .temperature = 0});
  for (const double temperature : {1e-60, 1e-42, 1e-30, 1e-7})
    EXPECT_EQ(generate(*model, {5}, {.tokens = 20, .temperature = temperature}), likeliest) << temperature;
}

// At any temperature.
TEST(Generate, TopOneTakesLikeliestToken) {
  auto model = some_model();
  EXPECT_EQ(generate(*model, {5}, {.tokens = 20, .temperature = 3, .top_k = 1}),
            generate(*model, {5}, {.tokens = 20, .temperature = 0}));
}

TEST(Generate, DrawsOnlyFromTheTopK) {
  auto model = some_model();
  const auto logits = model->next_token_logits(torch::tensor({{5}}, at::kLong))[0];
  const auto kept = std::get<1>(logits.topk(3));
  std::set<std::int64_t> allowed, seen;
  for (int i = 0; i < 3; ++i) allowed.insert(kept[i].item<std::int64_t>());
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    seen.insert(generate(*model, {5}, {.tokens = 1, .temperature = 10, .top_k = 3, .seed = seed}).front());
  }
  EXPECT_EQ(seen, allowed) << "200 draws at a high temperature meet all three";
}

TEST(Generate, GoesOnBeyondTheContext) {
  auto model = some_model();
  std::vector<std::int64_t> seen;
  const auto text =
      generate(*model, {1, 2, 3, 4, 5, 6, 7}, {.tokens = 9}, [&](std::int64_t token) { seen.push_back(token); });
  EXPECT_EQ(text.size(), 9U);
  EXPECT_EQ(seen, text) << "each token is reported when it is drawn";
}

TEST(Generate, ReadsLongPromptsLastTokens) {
  auto model = some_model();
  EXPECT_EQ(generate(*model, {9, 9, 9, 1, 2, 3, 4}, {.tokens = 5}), generate(*model, {1, 2, 3, 4}, {.tokens = 5}));
}

TEST(Generate, EveryLanguageModelSpeaks) {
  Llama llama(LlamaOptions{.layers = 1, .width = 8, .heads = 2, .context = 4, .vocab = 13});
  RecurrentLm lstm(RecurrentOptions{.hidden = 6, .context = 4}, 13);
  for (LanguageModel* model : std::initializer_list<LanguageModel*>{llama.get(), lstm.get()}) {
    const auto text = generate(*model, {1, 2, 3}, {.tokens = 9});
    EXPECT_EQ(text.size(), 9U);
    EXPECT_EQ(generate(*model, {7, 1, 2, 3}, {.tokens = 1, .temperature = 0}),
              generate(*model, {9, 7, 1, 2, 3}, {.tokens = 1, .temperature = 0}))
        << "tokens before the context are not read";
  }
}

TEST(Generate, KeepsTheModelsMode) {
  auto model = some_model();
  generate(*model, {}, {.tokens = 2});
  EXPECT_TRUE(model->is_training());
  model->eval();
  generate(*model, {}, {.tokens = 2});
  EXPECT_FALSE(model->is_training());
}

TEST(Generate, RefusesUnknownToken) {
  auto model = some_model();
  EXPECT_TRUE(says(message_of<ConfigError>([&] {
                     generate(*model, {1, 13}, {});
                   }),
                   "not one of the model's 13 tokens"));
}

TEST(Generate, ValuesOutOfRangeAreRefused) {
  const auto message = [](GenerateOptions options) { return message_of<ConfigError>([&] { check(options); }); };
  EXPECT_TRUE(says(message({.tokens = -1}), "--tokens = -1"));
  EXPECT_TRUE(says(message({.temperature = -0.5}), "--temperature = -0.5"));
  EXPECT_TRUE(says(message({.temperature = std::numeric_limits<double>::quiet_NaN()}), "--temperature = nan"));
  EXPECT_TRUE(says(message({.temperature = 1e39}), "--temperature = 1e+39: must be a finite number, 0 or more"));
  EXPECT_TRUE(says(message({.top_k = -2}), "--top-k = -2"));
}

}  // namespace
}  // namespace zero
