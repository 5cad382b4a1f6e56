// An LSTM. `units` names modules, each of which is gathered and reduced as one unit.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

struct Lstm : torch::nn::Module {
  Lstm() : table(10, 16), lstm(torch::nn::LSTMOptions(16, 32).num_layers(2).batch_first(true)), head(32, 10) {
    register_module("table", table);
    register_module("lstm", lstm);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& tokens) { return head(std::get<0>(lstm->forward(table(tokens)))); }
  torch::nn::Embedding table;
  torch::nn::LSTM lstm;
  torch::nn::Linear head;
};

std::vector<double> train_lstm(zero::World& world) {
  auto model = std::make_shared<Lstm>();
  auto engine = zero::attach(*model, world,
                             {.stage = 3,
                              .optimizer = zero::AdamW{.lr = 1e-2},
                              .clip = 1.0,
                              .units = zero::module_names(*model, {*model->lstm, *model->head})});

  std::vector<double> losses;
  for (int step = 0; step < 20; ++step) {
    const auto tokens = (torch::arange(9) * 3 + step + world.rank()).remainder(10).unsqueeze(0);  // 0 3 6 9 2 5 ...
    const auto logits = model->forward(tokens.narrow(1, 0, 8));
    const auto loss = torch::cross_entropy_loss(logits.squeeze(0), tokens.narrow(1, 1, 8).squeeze(0));
    loss.backward();
    engine.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace examples
