// One tensor as the table of an embedding and as the weight of a head.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

struct TiedImpl : torch::nn::Module {
  TiedImpl() : table(10, 16), hidden(16, 16) {
    register_module("table", table);
    register_module("hidden", hidden);
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    return torch::linear(torch::tanh(hidden(table(tokens))), table->weight);  // a head without a module
  }
  torch::nn::Embedding table;
  torch::nn::Linear hidden;
};
TORCH_MODULE(Tied);

}  // namespace examples
