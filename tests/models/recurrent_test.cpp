#include "app/models/recurrent.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr std::array kCells{Cell::kRnn, Cell::kLstm, Cell::kGru};

// The last state of one layer, from the cell's equations.
torch::Tensor last_state(Cell cell, const torch::OrderedDict<std::string, torch::Tensor>& p, const torch::Tensor& x) {
  const auto in = [&](std::int64_t t) {
    return torch::matmul(x.select(1, t), p["rnn.weight_ih_l0"].t()) + p["rnn.bias_ih_l0"];
  };
  auto h = torch::zeros({x.size(0), p["rnn.weight_hh_l0"].size(1)}), c = h;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const auto from_input = in(t), from_state = torch::matmul(h, p["rnn.weight_hh_l0"].t()) + p["rnn.bias_hh_l0"];
    if (cell == Cell::kRnn) {
      h = (from_input + from_state).tanh();
    } else if (cell == Cell::kLstm) {
      const auto gates = (from_input + from_state).chunk(4, 1);  // input, forget, cell, output
      c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh();
      h = gates[3].sigmoid() * c.tanh();
    } else {
      const auto a = from_input.chunk(3, 1), b = from_state.chunk(3, 1);  // reset, update, new
      const auto update = (a[1] + b[1]).sigmoid();
      h = (1 - update) * (a[2] + (a[0] + b[0]).sigmoid() * b[2]).tanh() + update * h;
    }
  }
  return h;
}

TEST(RowClassifier, ReadsRowsByItsCellsEquations) {
  for (const Cell cell : kCells) {
    torch::manual_seed(1);
    RowClassifier model(RecurrentOptions{.cell = cell, .hidden = 7}, 5, 3);
    const torch::NoGradGuard no_grad;
    const auto p = model->named_parameters();
    const auto images = torch::randn({4, 6 * 5});
    const auto expected =
        torch::matmul(last_state(cell, p, images.view({4, 6, 5})), p["head.weight"].t()) + p["head.bias"];
    EXPECT_TRUE(torch::allclose(model->forward(images), expected, 1e-4, 1e-5)) << name_of(cell);
  }
}

TEST(RecurrentLm, TokenDoesNotSeeItsFuture) {
  for (const Cell cell : kCells) {
    torch::manual_seed(2);
    RecurrentLm model(RecurrentOptions{.cell = cell, .hidden = 8, .layers = 2}, 11);
    auto tokens = torch::arange(10, at::kLong).view({1, 10});
    const auto before = model->forward(tokens);
    EXPECT_EQ(before.sizes(), (std::vector<std::int64_t>{1, 10, 11}));
    EXPECT_TRUE(torch::allclose(model->next_token_logits(tokens), before.select(1, 9), 1e-5, 1e-6));
    tokens[0][5] = 10;
    const auto after = model->forward(tokens);
    EXPECT_TRUE(torch::equal(before.narrow(1, 0, 5), after.narrow(1, 0, 5))) << name_of(cell);
    EXPECT_FALSE(torch::equal(before[0][9], after[0][9])) << name_of(cell) << ": the past reaches the last token";
  }
}

TEST(RecurrentOptions, RefuseBadModelsByKey) {
  const auto refused = [](const RecurrentOptions& options) { return message_of<ConfigError>([&] { check(options); }); };
  EXPECT_TRUE(says(refused({.hidden = 0}), "model.hidden"));
  EXPECT_TRUE(says(refused({.layers = 0}), "model.layers"));
  EXPECT_TRUE(says(refused({.layers = 2, .dropout = 1}), "model.dropout"));
  EXPECT_TRUE(says(refused({.dropout = 0.1}), "between layers"));
  EXPECT_TRUE(says(message_of<ConfigError>([] { RowClassifier(RecurrentOptions{}, 0, 2); }), "model.row"));
  EXPECT_TRUE(says(message_of<ConfigError>([] { RowClassifier(RecurrentOptions{}, 5, 1); }), "data.classes = 1"));
}

// Per step.
TEST(RecurrentOptions, CountSixFlopsPerWeight) {
  for (const Cell cell : kCells) {
    const RecurrentOptions options{.cell = cell, .hidden = 7, .layers = 3};
    double weights = 0;
    for (const auto& item : RowClassifier(options, 5, 3)->named_parameters())
      weights += item.value().dim() == 2 ? static_cast<double>(item.value().numel()) : 0;
    EXPECT_EQ(flops_per_step(options, 5, 3), 6 * weights) << name_of(cell);
  }
}

}  // namespace
}  // namespace zero
